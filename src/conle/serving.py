"""MLflow loads this file, instead of a pickle, to apply a fitted model.

The input has the columns of features and logical labels that the model was fitted with. The output
has the distributions.
"""

from pathlib import Path

import pandas as pd
from mlflow.models import set_model
from mlflow.pyfunc import PythonModel, PythonModelContext

from conle.data.models import read_model


class ServedEnhancer(PythonModel):
    """A fitted enhancer as a pyfunc of MLflow."""

    def load_context(self, context: PythonModelContext) -> None:
        """Read the model from the artifact."""
        self._model = read_model(Path(context.artifacts["model"]))

    def predict(
        self, context: PythonModelContext, model_input: pd.DataFrame, params: dict | None = None
    ) -> pd.DataFrame:
        """Recover the distributions of rows with features and logical labels."""
        labels = [name for name in self._model.labels if name in model_input]
        return self._model.enhance(model_input.drop(columns=labels), model_input[labels])


set_model(ServedEnhancer())
