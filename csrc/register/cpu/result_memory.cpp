#include "register/cpu/result_memory.h"

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <vector>

#ifdef __linux__
#include <sys/mman.h>
#endif

// In PyTorch since 2.11; null where it is missing.
extern "C" __attribute__((weak)) AOTITorchError torch_from_blob(
    void* data,
    int64_t ndim,
    const int64_t* sizes,
    const int64_t* strides,
    int64_t storage_offset,
    int32_t dtype,
    int32_t device_type,
    int32_t device_index,
    AtenTensorHandle* result,
    int32_t layout,
    const uint8_t* opaque_metadata,
    int64_t opaque_metadata_size,
    void (*deleter)(void* data, void* context),
    void* context);

namespace equigeo {
namespace {

struct Block {
  void* data;
  int64_t bytes;
  bool kept;
};

class ResultMemory {
 public:
  // Never destroyed: tensors may outlive every static object.
  static ResultMemory& instance() {
    static ResultMemory* memory = new ResultMemory;
    return *memory;
  }

  // A process may fork while another of its threads holds the mutex, which nobody would release in
  // the child.
  ResultMemory() {
    pthread_atfork(
        [] { instance().mutex_.lock(); }, [] { instance().mutex_.unlock(); },
        [] { instance().mutex_.unlock(); });
  }

  // At least that many bytes; data is null where there are none, or nothing may be kept.
  Block take(int64_t bytes) {
    bytes = (bytes + kLargePage - 1) / kLargePage * kLargePage;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (limit_ == 0) {
        return {nullptr, 0, false};
      }
      const auto found = smallest(bytes);
      if (found != kept_.end()) {
        Block block = *found;
        block.kept = true;
        kept_.erase(found);
        kept_bytes_ -= block.bytes;
        return block;
      }
    }
    void* data = std::aligned_alloc(kLargePage, bytes);
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (data != nullptr) {
      madvise(data, bytes, MADV_HUGEPAGE);
    }
#endif
    return {data, bytes, false};
  }

  void give(Block block) {
    const std::lock_guard<std::mutex> lock(mutex_);
    kept_.push_back(block);
    kept_bytes_ += block.bytes;
    release();
  }

  int64_t kept() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return kept_bytes_;
  }

  void set_limit(int64_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    limit_ = bytes;
    release();
  }

 private:
  static constexpr int64_t kLargePage = 1 << 21;

  // The one that wastes least, and no more than a quarter.
  std::vector<Block>::iterator smallest(int64_t bytes) {
    auto best = kept_.end();
    for (auto block = kept_.begin(); block != kept_.end(); ++block) {
      if (block->bytes >= bytes && block->bytes - bytes <= bytes / 4 &&
          (best == kept_.end() || block->bytes < best->bytes)) {
        best = block;
      }
    }
    return best;
  }

  // Give back what was not used for longest, until the rest is within the limit.
  void release() {
    auto block = kept_.begin();
    for (; block != kept_.end() && kept_bytes_ > limit_; ++block) {
      std::free(block->data);
      kept_bytes_ -= block->bytes;
    }
    kept_.erase(kept_.begin(), block);
  }

  std::mutex mutex_;
  std::vector<Block> kept_;  // least recently used first
  int64_t kept_bytes_ = 0, limit_ = 0;
};

void give_back(void* data, void* bytes) {
  ResultMemory::instance().give({data, reinterpret_cast<intptr_t>(bytes), false});
}

// Made when the library is loaded, where no other thread can fork in the middle of it.
const ResultMemory& made_early = ResultMemory::instance();

int32_t dtype_of(const Tensor& like) {
  int32_t dtype;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(like.get(), &dtype));
  return dtype;
}

std::vector<int64_t> contiguous_strides(Sizes sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * std::max<int64_t>(1, sizes.begin()[i]);
  }
  return strides;
}

// A tensor in a block, which goes back when the tensor does.
Tensor wrap(Block block, const Tensor& like, Sizes sizes) {
  void* bytes = reinterpret_cast<void*>(static_cast<intptr_t>(block.bytes));
  AtenTensorHandle handle;
  const AOTITorchError error = torch_from_blob(
      block.data, static_cast<int64_t>(sizes.size()), sizes.begin(),
      contiguous_strides(sizes).data(), 0, dtype_of(like), aoti_torch_device_type_cpu(), -1,
      &handle, aoti_torch_layout_strided(), nullptr, 0, give_back, bytes);
  if (error != TORCH_SUCCESS) {
    give_back(block.data, bytes);
    refuse("PyTorch makes no tensor of a block of memory");
  }
  return Tensor(handle);
}

// As new_tensor, without the dispatcher, which takes longer than a kernel of a small problem.
Tensor new_small(const Tensor& like, Sizes sizes) {
  AtenTensorHandle handle;
  const AOTITorchError error = aoti_torch_empty_strided(
      static_cast<int64_t>(sizes.size()), sizes.begin(), contiguous_strides(sizes).data(),
      dtype_of(like), aoti_torch_device_type_cpu(), -1, &handle);
  if (error != TORCH_SUCCESS) {
    refuse_shape(sizes);
  }
  return Tensor(handle);
}

}  // namespace

Tensor new_result(const Tensor& like, Sizes sizes, bool* stream) {
  constexpr int64_t kWorth = 1 << 22, kBeyondCaches = 1 << 23;
  const int64_t bytes = elements_of(sizes) * static_cast<int64_t>(like.element_size());
  if (bytes >= kWorth && torch_from_blob != nullptr) {
    const Block block = ResultMemory::instance().take(bytes);
    if (block.data != nullptr) {
      if (stream != nullptr) {
        *stream = block.kept && bytes >= kBeyondCaches;
      }
      return wrap(block, like, sizes);
    }
  }
  return new_small(like, sizes);
}

}  // namespace equigeo

extern "C" {

// Bytes of freed results that are kept for the next ones.
__attribute__((visibility("default"))) int64_t equigeo_kept_memory() {
  return equigeo::ResultMemory::instance().kept();
}

// The most that may be kept; what is beyond is freed at once.
__attribute__((visibility("default"))) void equigeo_limit_memory(int64_t bytes) {
  equigeo::ResultMemory::instance().set_limit(bytes);
}
}
