"""What TensorRT says of an engine, in whatever form: the records that its logs and its JSON share.

Names of layers and formats of tensors are small languages: see `necropsy_parsers.grammars.layer_name` and
`necropsy_parsers.grammars.tensor_format`.
"""
