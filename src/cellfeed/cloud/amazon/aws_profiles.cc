#include "cellfeed/cloud/amazon/aws_profiles.h"

#include <fmt/format.h>

#include <algorithm>

#include "cellfeed/base/ascii_case.h"
#include "cellfeed/base/error.h"
#include "cellfeed/base/trimmed.h"
#include "cellfeed/cloud/settings.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/io/small_file.h"

namespace cellfeed::cloud {
namespace {

constexpr std::int64_t kMaxProfileBytes = 1 << 20;

// The name may be in quotes: [profile "some name"].
std::string name_of(const std::string& title) { return std::string(trimmed(title, " \t\"")); }

// The file that the variable names, else that name in ~/.aws.
std::string file_of_aws(const char* variable, std::string_view name) {
  std::string file(environment(variable));
  if (file.empty()) file = fmt::format("~/.aws/{}", name);
  if (file.starts_with("~/")) file.replace(0, 1, environment("HOME"));
  return file;
}

}  // namespace

// Indented lines, which are parts of a setting, are left out.
AwsProfiles::Sections AwsProfiles::read(const std::string& path) {
  Sections sections;
  try {
    if (!io::exists(path)) return sections;
  } catch (const Error&) {  // of another user, whose home this is
    return sections;
  }
  const std::string text = io::read_small_file(path, kMaxProfileBytes);
  StorageOptions* section = nullptr;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const auto equal = line.find('=');
    if (line.starts_with('[')) {
      section = &sections[std::string(trimmed(line.substr(1, line.find(']') - 1)))];
    } else if (section != nullptr && equal != std::string_view::npos &&
               std::string_view("#; \t").find(line[0]) == std::string_view::npos) {
      section->insert_or_assign(lower(trimmed(line.substr(0, equal))),
                                std::string(trimmed(line.substr(equal + 1))));
    }
  }
  return sections;
}

AwsProfiles::AwsProfiles()
    : config_file_(file_of_aws("AWS_CONFIG_FILE", "config")),
      keys_file_(file_of_aws("AWS_SHARED_CREDENTIALS_FILE", "credentials")),
      sections_(read(config_file_)),
      keys_(read(keys_file_)) {}

std::optional<StorageOptions> AwsProfiles::find(std::string_view name) const {
  std::optional<StorageOptions> found;
  for (const auto& [title, settings] : sections_)
    if ((title.starts_with("profile ") && name_of(title.substr(8)) == name) ||
        (title == name && name == "default"))
      found = settings;
  if (const auto keys = keys_.find(name); keys != keys_.end()) {
    if (!found) found.emplace();
    for (const auto& [key, value] : keys->second) found->insert_or_assign(key, value);
  }
  return found;
}

StorageOptions AwsProfiles::sso_session(std::string_view name) const {
  for (const auto& [title, settings] : sections_)
    if (title.starts_with("sso-session ") && name_of(title.substr(12)) == name) return settings;
  return {};
}

std::string AwsProfiles::files() const {
  return fmt::format("'{}' and '{}'", config_file_, keys_file_);
}

}  // namespace cellfeed::cloud
