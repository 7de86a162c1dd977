// The schemas that this library was built from.
#include <torch/csrc/stable/library.h>

#include <cstdlib>

#include "schema_marker.h"

// What the loader looks for in the file, before it opens it.
extern "C" __attribute__((visibility("default"))) const char equigeo_schemas[];
const char equigeo_schemas[] = EQUIGEO_SCHEMA_MARKER;

namespace equigeo {
namespace {

// Python defines the ops, with all that belongs to them, and sets a variable while it loads this
// library. Elsewhere, as in a process that loads it and a package of AOTInductor, they are defined
// here and run on this device alone. A second library of such a process defines them again: PyTorch
// raises for that, and some of its versions print a page for each.
TorchLibraryHandle define_missing() {
  TorchLibraryHandle library = nullptr;
  if (std::getenv("EQUIGEO_OPS_ARE_DEFINED") != nullptr) {
    return library;
  }
  if (aoti_torch_library_init_fragment("equigeo", __FILE__, __LINE__, &library) == TORCH_SUCCESS) {
    for (const char* schema : {EQUIGEO_SCHEMAS}) {
      static_cast<void>(aoti_torch_library_def(library, schema));
    }
  }
  return library;
}

// What it defines ends with it: never.
const TorchLibraryHandle defined = define_missing();

}  // namespace
}  // namespace equigeo
