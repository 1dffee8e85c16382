"""The label enhancers: NumPy, SciPy, scikit-learn and PyTorch, without Kedro, MLflow or files.

>>> from conle.methods.references import SoftmaxLabels
>>> SoftmaxLabels().fit_transform([[0.3], [0.1]], [[1, 0], [0, 1]]).round(3).tolist()
[[0.731, 0.269], [0.269, 0.731]]
"""
