// Names of arguments in messages, as the interface in use spells them: --layer in the program,
// layer= in Python.
#pragma once

#include <string>
#include <string_view>

namespace cellfeed {

enum class Interface { kProgram, kPython };
// That of this process, once, before anything else runs. The program's where it is not called.
void set_interface(Interface used);
Interface interface_in_use();

// argument("layer"): --layer, layer=
// argument("overwrite", "true"): --overwrite, overwrite=True
// argument("layer", "none"): --layer none, layer=None
// argument("join", "outer"): --join outer, join="outer"
std::string argument(std::string_view name, std::string_view value = {});
// The same of what opens files, where other calls may take it by another name:
// --layer none, cellfeed.open(..., layer=None).
std::string argument_of_open(std::string_view name, std::string_view value = {});

}  // namespace cellfeed
