// What the loader looks for in the file, before it opens it.
#include "schema_marker.h"

extern "C" __attribute__((visibility("default"))) const char equigeo_schemas[];
const char equigeo_schemas[] = EQUIGEO_SCHEMA_MARKER;
