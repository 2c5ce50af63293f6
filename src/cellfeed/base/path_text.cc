#include "cellfeed/base/path_text.h"

#include <algorithm>
#include <array>

#include "cellfeed/base/ascii_case.h"
#include "cellfeed/base/error.h"

namespace cellfeed {
namespace {

constexpr std::string_view kMask = "***";

bool ends_url(char c) { return c == ' ' || c == '\'' || c == '"' || c == '\n' || c == ')'; }

bool is_of_azure(std::string_view text, std::size_t begin) {
  return std::ranges::any_of(std::array<std::string_view, 3>{"az://", "abfs://", "abfss://"},
                             [&](auto start) { return text.substr(0, begin).ends_with(start); });
}

// A secret may itself hold slashes, so what counts is the last "@" before the query. Of Azure,
// "container@account" holds none.
void mask_user(std::string& url, bool is_azure) {
  const std::string_view path = std::string_view(url).substr(0, url.find('?'));
  const std::size_t at = path.rfind('@');
  if (at == std::string_view::npos) return;
  if (is_azure && path.substr(0, at).find(':') == std::string_view::npos) return;
  url.replace(0, at, kMask);
}

void mask_query(std::string& url) {
  std::size_t at = url.find('?');
  while (at != std::string::npos) {
    const std::size_t begin = at + 1;
    const std::size_t equals = url.find('=', begin);
    if (equals == std::string::npos) return;
    const std::size_t next = url.find('&', begin);
    if (equals < next) {
      if (is_secret_parameter(std::string_view(url).substr(begin, equals - begin))) {
        const std::size_t length = next == std::string::npos ? next : next - equals - 1;
        url.replace(equals + 1, length, kMask);
      }
    }
    at = url.find('&', begin);
  }
}

}  // namespace

bool is_secret_parameter(std::string_view given) {
  const std::string name = lower(given);
  const auto has = [&](std::string_view part) { return name.find(part) != std::string::npos; };
  constexpr std::array<std::string_view, 8> kWhole{"sig",  "sas",   "code",  "auth",
                                                   "pass", "hdnea", "hdnts", "hmac"};
  return std::ranges::find(kWhole, name) != kWhole.end() || name.ends_with("key") ||
         name.ends_with("pwd") || has("signature") || has("token") || has("secret") ||
         has("passw") || has("credential") || has("authoriz") || has("session") || has("jwt");
}

void require_path(std::string_view path) {
  if (path.empty()) throw_invalid("a path must not be empty");
  const std::size_t nul = path.find('\0');
  if (nul != std::string_view::npos)
    throw_invalid("a path holds a NUL byte at position {}, behind '{}'; remove it", nul,
                  path.substr(0, nul));
}

std::string mask_credentials(std::string text) {
  for (std::size_t at = text.find("://"); at != std::string::npos;) {
    const std::size_t begin = at + 3;
    const auto stop = static_cast<std::size_t>(
        std::find_if(text.begin() + static_cast<std::ptrdiff_t>(begin), text.end(), ends_url) -
        text.begin());
    std::string url = text.substr(begin, stop - begin);
    mask_user(url, is_of_azure(text, begin));
    mask_query(url);
    text.replace(begin, stop - begin, url);
    at = text.find("://", begin + url.size());
  }
  return text;
}

}  // namespace cellfeed
