"""Paceline: training on machines of unequal speed. Any training loop as a worker of a run.

paceline.Worker       a loop over numpy arrays
paceline.Network      the built-in network, for a loop that has no model of its own
paceline.data         a run's pictures as mini-batches, for any loop
paceline.torch        a PyTorch loop, by five lines; imports torch
paceline.jax          a JAX loop; imports jax
paceline.launch       starts a run's servers and a program for each node on this machine
paceline.spark        a DataFrame of Spark, trained with on its executors; imports pyspark and pyarrow
"""

from paceline.model import read_model
from paceline.network import Network
from paceline.worker import Error, Round, RunOver, Stopped, Worker, version

__all__ = ["Error", "Network", "Round", "RunOver", "Stopped", "Worker", "read_model", "version"]
