"""From a usage profile to advice: needs, candidates, headline. Pure: values in, values out."""
