"""The three losses of ConLE."""

from conle.methods.losses.contrastive import contrastive_loss
from conle.methods.losses.distance import distance_loss
from conle.methods.losses.threshold import threshold_loss

__all__ = ["contrastive_loss", "distance_loss", "threshold_loss"]
