// Energy and forces of one system by a package of a potential, without Python:
//
//   energy_and_forces KERNELS.so POTENTIAL.pt2 < SYSTEM
//
// SYSTEM is the number of atoms, three lattice vectors (zeros where there are none), and an atomic
// number and a position for each atom, in angstrom. What is printed is in eV and angstrom.

#include <ATen/ATen.h>
#include <dlfcn.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <cstdio>
#include <iostream>
#include <stdexcept>
#include <vector>

static void run(const char* kernels, const char* package) {
  // The package calls the operators that this library registers.
  if (!dlopen(kernels, RTLD_NOW | RTLD_GLOBAL)) throw std::runtime_error(dlerror());
  torch::inductor::AOTIModelPackageLoader potential(package);
  const double cutoff = std::stod(potential.get_metadata().at("cutoff"));

  int64_t atoms = 0;
  std::cin >> atoms;
  at::Tensor cell = at::zeros({3, 3}, at::kDouble);
  at::Tensor numbers = at::zeros({atoms}, at::kLong), x = at::zeros({atoms, 3}, at::kDouble);
  for (int64_t i = 0; i < 9; ++i) std::cin >> cell.data_ptr<double>()[i];
  for (int64_t i = 0; i < atoms; ++i) {
    std::cin >> numbers.data_ptr<int64_t>()[i];
    for (int64_t a = 0; a < 3; ++a) std::cin >> x.data_ptr<double>()[3 * i + a];
  }
  if (!std::cin)
    throw std::runtime_error("the system must have a number of atoms, a cell and atoms");

  // All pairs and images: an engine has a list of its own, in any order and with any skin.
  at::Tensor images = at::zeros({1, 3}, at::kDouble);
  if (cell.any().item<bool>()) {
    at::Tensor inverse = at::linalg_inv(cell), fractional = at::matmul(x, inverse);
    at::Tensor spread = fractional.amax(0) - fractional.amin(0);  // atoms need not be wrapped
    at::Tensor reach = (cutoff * inverse.norm(2, 0) + spread).ceil();
    std::vector<at::Tensor> axes;
    for (int a = 0; a < 3; ++a) {
      const double n = reach[a].item<double>();
      axes.push_back(at::arange(-n, n + 1, at::kDouble));
    }
    images = at::cartesian_prod(axes);
  }
  at::Tensor between = x.unsqueeze(0) - x.unsqueeze(1);
  at::Tensor length = (between.unsqueeze(2) + at::matmul(images, cell)).norm(2, -1);
  at::Tensor itself = at::eye(atoms, at::kBool).unsqueeze(2).logical_and(images.eq(0).all(1));
  at::Tensor found = length.lt(cutoff).logical_and(itself.logical_not()).nonzero();
  at::Tensor edges = found.slice(1, 0, 2).t().contiguous();
  at::Tensor shifts = images.index_select(0, found.select(1, 2)).to(at::kInt);

  std::vector<at::Tensor> out = potential.run({numbers, x, cell, edges, shifts});
  std::printf("%.17g\n", out[0].item<double>());
  for (int64_t i = 0; i < atoms; ++i) {
    const double* force = out[2].data_ptr<double>() + 3 * i;
    std::printf("%.17g %.17g %.17g\n", force[0], force[1], force[2]);
  }
}

int main(int argc, char** argv) {
  try {
    if (argc != 3) throw std::runtime_error("usage: energy_and_forces KERNELS.so POTENTIAL.pt2");
    run(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
