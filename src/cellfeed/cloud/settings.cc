#include "cellfeed/cloud/settings.h"

#include <algorithm>
#include <cstdlib>

#include "cellfeed/base/error.h"

namespace cellfeed::cloud {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

std::string_view option(const StorageOptions& options, std::string_view name) {
  const auto found = options.find(name);
  return found == options.end() ? std::string_view() : std::string_view(found->second);
}

std::string_view first_of(std::initializer_list<std::string_view> texts) {
  const auto found = std::ranges::find_if(texts, [](auto text) { return !text.empty(); });
  return found == texts.end() ? std::string_view() : *found;
}

bool is_anonymous(const StorageOptions& options) {
  return options.contains("anon") && parse_flag("anon", option(options, "anon"));
}

std::string parse_endpoint(const std::string& path, std::string_view setting,
                           std::string_view text) {
  while (text.ends_with('/')) text.remove_suffix(1);
  const auto colon = text.find("://");
  const std::string_view scheme = colon == std::string_view::npos ? "" : text.substr(0, colon);
  const std::string_view rest = colon == std::string_view::npos ? text : text.substr(colon + 3);
  if ((!scheme.empty() && scheme != "http" && scheme != "https") || rest.empty() ||
      rest.find_first_of("@?# ") != std::string_view::npos)
    throw_error(ErrorKind::kInvalidArgument, path,
                "{} must be http(s)://host or http(s)://host:port", setting);
  return std::string(scheme.empty() ? "https" : scheme) + "://" + std::string(rest);
}

}  // namespace cellfeed::cloud
