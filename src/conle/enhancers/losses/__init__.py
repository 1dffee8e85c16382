"""The three losses of ConLE, each usable alone."""

from conle.enhancers.losses.contrastive import contrastive_loss
from conle.enhancers.losses.distance import distance_loss
from conle.enhancers.losses.threshold import threshold_loss

__all__ = ["contrastive_loss", "distance_loss", "threshold_loss"]
