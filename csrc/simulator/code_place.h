// The source of an address in the program, from debug information through addr2line.
#pragma once

#include <string>

namespace equigeo::simulator {

// As the lines of sources, innermost first; where there is none, as an offset in the library.
std::string place_of(const void* code);

// The name of the function that begins there, without its arguments.
std::string function_at(const void* code);

}  // namespace equigeo::simulator
