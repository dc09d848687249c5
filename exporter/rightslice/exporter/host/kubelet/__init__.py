"""What the kubelet tells: which containers were granted which devices."""
