// AwsProfiles: the profiles of ~/.aws/config and ~/.aws/credentials, or of the files that
// AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE name. Immutable.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "cellfeed/cloud/storage_options.h"

namespace cellfeed::cloud {

class AwsProfiles {
 public:
  // A file that does not exist has no profiles. Throws what reading a file throws.
  AwsProfiles();

  // Where both files have the profile, settings of the file of credentials count.
  std::optional<StorageOptions> find(std::string_view name) const;
  // Empty where there is none of this name.
  StorageOptions sso_session(std::string_view name) const;
  std::string files() const;  // for errors

 private:
  using Sections = std::map<std::string, StorageOptions, std::less<>>;
  static Sections read(const std::string& path);

  std::string config_file_, keys_file_;
  Sections sections_, keys_;
};

}  // namespace cellfeed::cloud
