"""The Open Inference Protocol, version 2, over HTTP with binary tensors, as KServe and Triton speak it.

Sources: the protocol's REST specification (kserve/open-inference-protocol), and of Triton's extensions to it those of
binary tensor data, classification, model configuration and model repository.
"""
