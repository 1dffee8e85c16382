"""The posterior decoder: label distributions given how logical labels are made."""
