// Certificates that the environment names as trusted, by the variables that other programs read.
#pragma once

#include <optional>

namespace cellfeed::cloud {

// Texts of the environment: good until it changes.
struct NamedCertificates {
  const char* variable;
  const char* path;
  bool is_folder;  // of one file for each, named by the hash of its subject
};

// None: those that this machine trusts.
std::optional<NamedCertificates> named_certificates();

}  // namespace cellfeed::cloud
