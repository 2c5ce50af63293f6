// Credentials of Amazon's accounts, found where Amazon's own clients look for them, in botocore's
// order: keys of the environment, the role of a profile, a web identity, the login (SSO) and the
// keys of a profile, the container, the machine. Thread-safe.
#pragma once

#include <string>

#include "cellfeed/cloud/amazon/aws_signature.h"
#include "cellfeed/cloud/storage_options.h"

namespace cellfeed::cloud {

struct AwsAccount {
  std::string path;        // for errors
  std::string profile{};   // empty: that of AWS_PROFILE, else "default"
  std::string role_arn{};  // a role to assume with what is found; empty: none
  std::string region{};    // of the server that is asked for roles
};

// Without keys where none are found. fresh: the last ones were refused. Throws kInvalidArgument for
// a profile that does not exist or lacks something, kUnsupported for one that needs a program or a
// code of a person, kIo with what a server said where it gives no keys. Waits for servers.
AwsCredentials find_aws_credentials(const AwsAccount& account, bool fresh);

// The settings of the profile, such as "region"; none where there is no "default" and none is
// named.
StorageOptions aws_profile(const AwsAccount& account);

}  // namespace cellfeed::cloud
