#include "cellfeed/cloud/azure/azure_signature.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "cellfeed/base/ascii_case.h"
#include "cellfeed/cloud/digest.h"
#include "cellfeed/cloud/percent.h"

namespace cellfeed::cloud {
namespace {

using Fields = std::map<std::string, std::string>;

Fields fields_of(std::span<const std::string> headers) {
  Fields fields;
  for (const std::string& line : headers) {
    const auto colon = line.find(": ");
    if (colon != std::string::npos) fields[lower(line.substr(0, colon))] = line.substr(colon + 2);
  }
  return fields;
}

// "/account/path" and each value of the query on a line of its own, by name.
std::string canonical_resource(const std::string& account, std::string_view url) {
  url.remove_prefix(url.find("://") + 3);
  url.remove_prefix(std::min(url.size(), url.find('/')));
  const auto mark = url.find('?');
  std::string text = fmt::format("/{}{}", account, url.substr(0, mark));
  Fields values;
  for (std::string_view rest = mark == std::string_view::npos ? "" : url.substr(mark + 1);
       !rest.empty();) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
    const auto equals = pair.find('=');
    if (equals == std::string_view::npos) continue;
    values[lower(percent_decoded(pair.substr(0, equals)))] =
        percent_decoded(pair.substr(equals + 1));
  }
  for (const auto& [name, value] : values) text += fmt::format("\n{}:{}", name, value);
  return text;
}

class AzureSigner final : public RequestSigner {
 public:
  AzureSigner(std::string account, std::string key)
      : account_(std::move(account)), key_(std::move(key)) {}

  std::vector<std::string> sign(const HttpRequest& request, std::span<const std::string> headers,
                                std::time_t now) const override {
    Fields fields = fields_of(headers);
    const std::string date = fmt::format("{:%a, %d %b %Y %H:%M:%S GMT}", fmt::gmtime(now));
    fields["x-ms-date"] = date;
    if (!request.body.empty()) fields["content-length"] = std::to_string(request.body.size());
    std::string text = request.method + "\n";
    // Those that stand here by their place. The date is given as x-ms-date.
    for (const char* name :
         {"content-encoding", "content-language", "content-length", "content-md5", "content-type",
          "", "if-modified-since", "if-match", "if-none-match", "if-unmodified-since", "range"})
      text += (fields.contains(name) ? fields[name] : "") + "\n";
    for (const auto& [name, value] : fields)
      if (name.starts_with("x-ms-")) text += fmt::format("{}:{}\n", name, value);
    text += canonical_resource(account_, request.url);
    return {"x-ms-date: " + date, fmt::format("Authorization: SharedKey {}:{}", account_,
                                              base64(bytes_of(hmac_sha256(key_, text))))};
  }

 private:
  const std::string account_;
  const std::string key_;
};

}  // namespace

std::shared_ptr<const RequestSigner> make_azure_signer(std::string account, std::string key) {
  return std::make_shared<const AzureSigner>(std::move(account), std::move(key));
}

}  // namespace cellfeed::cloud
