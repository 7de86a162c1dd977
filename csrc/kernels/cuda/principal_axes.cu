#include "args/principal_axes.h"

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launch.h"
#include "math/principal_axes.h"

namespace equigeo {
namespace {

// The lanes of a warp: each is left with the same sum, added up in the same order.
struct WarpTeam {
  __device__ double sum(double value) const {
    for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
      value += __shfl_xor_sync(0xffffffffu, value, lanes);
    }
    return value;
  }
  __device__ double largest(double value) const {
    for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
      const double other = __shfl_xor_sync(0xffffffffu, value, lanes);
      value = other > value ? other : value;
    }
    return value;
  }
};

// Sums over the lanes of what has numbers as its only members.
template <class Sums>
__device__ void sum_up(const WarpTeam& team, Sums& sums) {
  double* terms = reinterpret_cast<double*>(&sums);
  constexpr int kCount = sizeof(Sums) / sizeof(double);
  EQUIGEO_UNROLL
  for (int i = 0; i < kCount; ++i) {
    terms[i] = team.sum(terms[i]);
  }
}

template <class T>
__device__ double weight_of(const T* weight, int64_t p) {
  return weight ? static_cast<double>(weight[p]) : 1.0;
}

// Call run(u, weight, p) for each point of this lane; coordinates of points without weight are 0.
template <int D, class T, class Run>
__device__ void each(const PrincipalAxes<T>& op, int64_t cloud, const Run& run) {
  for (int64_t p = op.ptr[cloud] + threadIdx.x % kWarp; p < op.ptr[cloud + 1]; p += kWarp) {
    const double weight = weight_of(op.weight, p);
    double x[D];
    for (int k = 0; k < D; ++k) {
      x[k] = static_cast<double>(op.x[p * D + k]);
    }
    run(x, weight, p);
  }
}

// A point and where it is from the origin; one that does not count is taken to be there, no farther
// away than those that count.
template <int D>
__device__ void shift(const CloudAxes<D>& axes, double weight, double (&x)[D], double (&u)[D]) {
  for (int k = 0; k < D; ++k) {
    x[k] = weight > 0 ? x[k] : axes.origin[k];
    u[k] = x[k] - axes.origin[k];
  }
}

template <int D>
__device__ void centre(const CloudAxes<D>& axes, double weight, double (&x)[D]) {
  for (int k = 0; k < D; ++k) {
    x[k] = weight > 0 ? (x[k] - axes.origin[k]) * axes.inverse - axes.mean[k] : 0;
  }
}

// One warp per cloud.
template <class T, int D>
__global__ void embed_clouds(PrincipalAxes<T> op) {
  const WarpTeam team;
  for (int64_t cloud = first_item() / kWarp; cloud < op.clouds; cloud += item_stride() / kWarp) {
    CloudAxes<D> axes;
    int64_t first = op.ptr[cloud];
    while (op.weight && first < op.ptr[cloud + 1] && !(op.weight[first] > 0)) {
      ++first;
    }
    for (int k = 0; k < D; ++k) {
      const bool some = op.center && first < op.ptr[cloud + 1];
      axes.origin[k] = some ? static_cast<double>(op.x[first * D + k]) : 0;
    }
    FirstSums<double, D> sums;
    double total = 0;
    each<D>(op, cloud, [&](double (&x)[D], double weight, int64_t) {
      double u[D];
      shift(axes, weight, x, u);
      sums.add(x, u, weight);
      total += weight;
    });
    const double largest = team.largest(sums.largest), span = team.largest(sums.span);
    sum_up(team, sums);
    sums.largest = largest;
    sums.span = span;
    axes.begin(sums, team.sum(total), op.center, op.null_tol);
    SecondSums<double, D> second;
    each<D>(op, cloud, [&](double (&x)[D], double weight, int64_t) {
      centre(axes, weight, x);
      second.add(x, weight);
    });
    sum_up(team, second);
    Eigen<double, D> eigen;
    for (double& entry : second.scatter) {
      entry = axes.finite ? entry : 0;
    }
    solve(second.scatter, eigen);
    axes.turn(eigen, 0);
    SquareSums<double, D> squares;
    CubeSums<double, D> cubes;
    each<D>(op, cloud, [&](double (&x)[D], double weight, int64_t) {
      double y[D];
      centre(axes, weight, x);
      for (int k = 0; k < D; ++k) {
        y[k] = along(x, axes.axes[k]);
      }
      squares.add(y, weight);
      cubes.add(y, weight);
    });
    sum_up(team, squares);
    sum_up(team, cubes);
    axes.finish(squares, cubes, op.signs, op.scale);
    if (threadIdx.x % kWarp == 0) {
      axes.store(op, cloud);
    }
    double matrix[D][D];
    axes.projection(matrix);
    each<D>(op, cloud, [&](double (&x)[D], double weight, int64_t p) {
      centre(axes, weight, x);
      for (int k = 0; k < D; ++k) {
        op.y[p * D + k] = static_cast<T>(along(x, matrix[k]) + axes.poison());
      }
    });
  }
}

template <class T, int D>
__global__ void differentiate_clouds(PrincipalAxesBackward<T> op) {
  const WarpTeam team;
  for (int64_t cloud = first_item() / kWarp; cloud < op.clouds; cloud += item_stride() / kWarp) {
    const auto each = [&](const auto& run) {
      for (int64_t p = op.ptr[cloud] + threadIdx.x % kWarp; p < op.ptr[cloud + 1]; p += kWarp) {
        const double weight = weight_of(op.weight, p);
        double y[D], grad[D];
        for (int k = 0; k < D; ++k) {
          y[k] = static_cast<double>(op.y[p * D + k]);
          grad[k] = weight > 0 ? static_cast<double>(op.grad_y[p * D + k]) : 0;
        }
        run(y, grad, weight, p);
      }
    };
    GradientSums<double, D> sums;
    each([&](double (&y)[D], double (&grad)[D], double weight, int64_t) {
      sums.add(y, grad, weight);
    });
    CloudGradient<D> gradient;
    sum_up(team, sums);
    gradient.find(sums, op, cloud);
    each([&](double (&y)[D], double (&grad)[D], double weight, int64_t p) {
      double out[D];
      gradient.apply(y, grad, weight, out);
      for (int k = 0; k < D; ++k) {
        op.grad_x[p * D + k] = static_cast<T>(out[k]);
      }
    });
  }
}

template <class T>
const char* run(const PrincipalAxes<T>& op, void*, void* stream) {
  launch_threads(
      op.dim == 1   ? embed_clouds<T, 1>
      : op.dim == 2 ? embed_clouds<T, 2>
                    : embed_clouds<T, 3>,
      op.clouds * kWarp, stream, op);
  return launch_error();
}

template <class T>
const char* run(const PrincipalAxesBackward<T>& op, void*, void* stream) {
  launch_threads(
      op.dim == 1   ? differentiate_clouds<T, 1>
      : op.dim == 2 ? differentiate_clouds<T, 2>
                    : differentiate_clouds<T, 3>,
      op.clouds * kWarp, stream, op);
  return launch_error();
}

}  // namespace

EQUIGEO_DEFINE_LAUNCHES(PrincipalAxes)
EQUIGEO_DEFINE_LAUNCHES(PrincipalAxesBackward)

}  // namespace equigeo
