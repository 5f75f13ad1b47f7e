"""Graphs share one file of weights."""


def test_equal_weights_lie_once_in_the_file_that_the_roles_share(source, graphs, folder):
    held = sum(parameter.numel() * 4 for parameter in source.plan("predict").module.parameters())
    assert (folder / "weights.bin").stat().st_size < 1.5 * held + 4096 * 100  # pages between tensors
    for graph in graphs.values():
        assert all(len(tensor.raw_data) < 1024 for tensor in graph.graph.initializer)
        assert {
            entry.value
            for tensor in graph.graph.initializer
            for entry in tensor.external_data
            if entry.key == "location"
        } == {"weights.bin"}
