// Access tokens, which stand for an account for about an hour: asked of whoever gives them, kept in
// this process, never shown. Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "cellfeed/cloud/http/http_loop.h"

namespace cellfeed::cloud {

struct AccessToken {
  std::string text;
  Clock::time_point end{};
};

// path: for errors. Both throw kIo with what the server said where it gives none.
AccessToken ask_for_token(const HttpRequest& request, const std::string& path);
// For servers that only a machine in a cloud has. Short, as other machines have none.
inline constexpr HttpTimeouts kMachineTimeouts{.connect = std::chrono::milliseconds(2000),
                                               .stalled = std::chrono::seconds(5),
                                               .whole = std::chrono::milliseconds(5000)};
// Of the server that a machine of a cloud has beside it. other_ways: to have credentials, for the
// error where there is no such server.
AccessToken ask_machine_for_token(const HttpRequest& request, const std::string& path,
                                  std::string_view other_ways);
// A form as a request that is POSTed; its values are escaped here.
HttpRequest token_form(std::string url,
                       std::initializer_list<std::pair<std::string_view, std::string_view>> form);

// The one kept under this name, or a new one where that ends within minutes. fresh: a new one, as
// it was refused.
std::string kept_token(const std::string& name, bool fresh,
                       const std::function<AccessToken()>& ask_for_one);

}  // namespace cellfeed::cloud
