#include "cellfeed/cloud/http/certificates.h"

#include <array>
#include <cstdlib>

#include "cellfeed/base/error.h"
#include "cellfeed/io/local_file_system.h"

namespace cellfeed::cloud {
namespace {

bool is_folder(const char* path) {
  try {
    return io::local_file_system().status(path).is_directory();
  } catch (const Error&) {
    return false;  // who opens it says what is wrong with it
  }
}

// Of Debian, Red Hat, SUSE, and Alpine.
constexpr std::array kFilesOfMachines = {"/etc/ssl/certs/ca-certificates.crt",
                                         "/etc/pki/tls/certs/ca-bundle.crt",
                                         "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"};

}  // namespace

std::optional<NamedCertificates> named_certificates() {
  for (const char* name :
       {"AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"})
    if (const char* path = std::getenv(name); path != nullptr && *path != '\0')
      return NamedCertificates{name, path, is_folder(path)};
  return std::nullopt;
}

const char* certificates_of_machine() {
  static const char* const found = []() -> const char* {
    for (const char* path : kFilesOfMachines)
      if (io::local_file_system().status(path).is_file()) return path;
    return nullptr;
  }();
  return found;
}

}  // namespace cellfeed::cloud
