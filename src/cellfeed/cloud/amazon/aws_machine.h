// Credentials of Amazon's accounts that are kept until they end, and those that a container or a
// machine has from a server beside it. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "cellfeed/cloud/access_token.h"
#include "cellfeed/cloud/amazon/aws_signature.h"

namespace cellfeed::cloud {

// How long credentials are kept that do not say when they end.
inline constexpr std::chrono::minutes kUsualAwsAge{15};
// As kept_token.
AwsCredentials kept_keys(const std::string& name, bool fresh,
                         const std::function<AccessToken()>& ask_for_one);
AccessToken token_of(const AwsCredentials& keys, Clock::time_point end);
Clock::time_point end_at(std::int64_t unix_seconds);
// "2026-11-28T09:30:00Z" (ISO 8601).
Clock::time_point end_of(const std::string& text);
// The token. Throws kInvalidArgument where no header can hold it. path: for errors.
const std::string& checked_header(const std::string& token, const std::string& path);

// Asks the server that ECS and EKS name to their containers. Empty in other places. Throws kIo,
// naming `path`, where that server gives no credentials.
std::optional<AwsCredentials> aws_container_credentials(const std::string& path, bool fresh);
// Asks the metadata service of an EC2 instance for the credentials of its role. Tries version 2,
// then version 1. Empty on other machines, after some seconds.
std::optional<AwsCredentials> aws_machine_credentials(const std::string& path, bool fresh);

}  // namespace cellfeed::cloud
