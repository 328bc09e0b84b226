"""The steps of ``trellis train``: options, data, features, estimators, tuning, progress."""
