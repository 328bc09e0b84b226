"""The steps of ``trellis check``: read each file once, then derive the findings."""
