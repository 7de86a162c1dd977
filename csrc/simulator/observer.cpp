#include "simulator/observer.h"

namespace equigeo::simulator {
namespace {

Observer nobody;
Observer* told = &nobody;

}  // namespace

Observer& observer() { return *told; }

void observe_with(Observer* observer) { told = observer == nullptr ? &nobody : observer; }

}  // namespace equigeo::simulator
