// Access tokens of Google's accounts.
#pragma once

#include <string>

#include "cellfeed/cloud/access_token.h"

namespace cellfeed::cloud {

// path: for errors. All throw kIo where no token is given.

// Of the key of a service account, or of a login, as Google's tools write them. Throws
// kInvalidArgument where the file is none, kUnsupported for other kinds of accounts.
AccessToken token_of_google_file(const std::string& path, const std::string& key_file);
// Of the machine's own account, in Google's cloud.
AccessToken token_of_google_machine(const std::string& path);

}  // namespace cellfeed::cloud
