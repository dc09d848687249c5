"""The command `rightslice-exporter check`: looks once at this node and says what is weak."""
