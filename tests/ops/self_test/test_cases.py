import torch

from equigeo.ops.runtime.declare import SCHEMAS
from equigeo.ops.runtime.signature import Signature
from equigeo.ops.self_test.cases import all_cases

OF_THE_CPU = {"attention_conv", "relu_batch_norm"}
WITHOUT_CUDA_KERNELS = {
    "principal_axes_nd",
    *OF_THE_CPU,
    *(f"{name}_backward" for name in OF_THE_CPU),
    "copywise_product_double_backward",
    "fully_connected_product_double_backward",
}
CASES = all_cases()


def test_every_op_that_has_cuda_kernels_has_one_case():
    names = [case.op for case in CASES]
    assert len(names) == len(set(names))
    assert set(names) == set(SCHEMAS) - WITHOUT_CUDA_KERNELS


def test_a_case_gives_every_argument_of_its_op():
    for case in CASES:
        names = Signature.parse(SCHEMAS[case.op]).arguments
        assert len(case.features) + len(case.rest) == len(names), case.op


def test_features_round_to_themselves_and_are_not_few_numbers():
    for case in CASES:
        for x in case.features:
            assert x.dtype == torch.float64
            assert torch.equal(x, x.bfloat16().double())
            assert x.numel() < 3 or x.flatten().unique().numel() > 2, case.op


def test_cases_are_the_same_every_time():
    for one, other in zip(CASES, all_cases(), strict=True):
        assert all(map(torch.equal, one.features, other.features))
