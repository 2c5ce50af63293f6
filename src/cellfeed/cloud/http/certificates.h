// Certificates that are trusted: those that the environment names, by the variables that other
// programs read, or those of this machine.
#pragma once

#include <optional>

namespace cellfeed::cloud {

// Texts of the environment: good until it changes.
struct NamedCertificates {
  const char* variable;
  const char* path;
  bool is_folder;  // of one file for each, named by the hash of its subject
};

std::optional<NamedCertificates> named_certificates();
// The file in which this machine's distribution keeps them, or null where it has none.
const char* certificates_of_machine();

}  // namespace cellfeed::cloud
