// Stands in for the header of C where kernels are compiled at run time.
#pragma once

using int32_t = int;
using int64_t = long;
using intptr_t = long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned;
using uint64_t = unsigned long;
using uintptr_t = unsigned long;
