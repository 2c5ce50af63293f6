#include "cellfeed/base/argument_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

namespace cellfeed {
namespace {

std::atomic<Interface> interface_used{Interface::kProgram};

std::string flag(std::string name, std::string_view value) {
  std::ranges::replace(name, '_', '-');
  if (value.empty() || value == "true") return "--" + name;
  return fmt::format("--{} {}", name, value);
}

std::string keyword(std::string_view name, std::string_view value) {
  if (value == "true") value = "True";
  if (value == "none") value = "None";
  const bool is_text = !value.empty() && value != "True" && value != "None";
  return is_text ? fmt::format("{}=\"{}\"", name, value) : fmt::format("{}={}", name, value);
}

}  // namespace

void set_interface(Interface used) { interface_used = used; }
Interface interface_in_use() { return interface_used; }

std::string argument(std::string_view name, std::string_view value) {
  return interface_used == Interface::kProgram ? flag(std::string(name), value)
                                               : keyword(name, value);
}

std::string argument_of_open(std::string_view name, std::string_view value) {
  const std::string text = argument(name, value);
  return interface_used == Interface::kProgram ? text : fmt::format("cellfeed.open(..., {})", text);
}

}  // namespace cellfeed
