#include "cellfeed/cloud/http/http_file_system.h"

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/base/path_text.h"
#include "cellfeed/cloud/cache/file_cache.h"
#include "cellfeed/cloud/http/http_ask.h"
#include "cellfeed/cloud/http/http_source.h"
#include "cellfeed/cloud/http/recent_objects.h"
#include "cellfeed/cloud/storage_options.h"
#include "cellfeed/exec/stop_scope.h"

namespace cellfeed::cloud {
namespace {

// Of the times that servers tell, and some more.
constexpr std::chrono::milliseconds kTick{1100};

std::string without_slash(std::string path) {
  while (path.ends_with('/') && !path.ends_with("://")) path.pop_back();
  return path;
}

// A path is shown and written: what opens a door has no place in it.
void require_no_secret(const std::string& path) {
  const auto query = path.find_first_of("?#");
  if (query == std::string::npos) return;
  std::string_view rest = std::string_view(path).substr(query);
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const std::string_view parameter = rest.substr(0, rest.find_first_of("?&;#"));
    rest.remove_prefix(parameter.size());
    if (is_secret_parameter(parameter.substr(0, parameter.find('='))))
      throw_error(ErrorKind::kUnsupported, path.substr(0, query),
                  "a signed address is not read, as paths are shown and written: read it by its "
                  "s3:// path with credentials from the environment, or copy it to a local disk");
  }
}

HttpRequest address(const std::string& path) {
  require_no_secret(path);
  const BucketPath parsed = parse_bucket_path(path);
  HttpRequest request;
  for (const char c : without_slash(path)) request.url += c == ' ' ? "%20" : std::string(1, c);
  const StorageOptions options = storage_options_of(parsed.scheme, parsed.bucket);
  if (const auto headers = options.find("headers"); headers != options.end())
    for (std::string_view rest = headers->second; !rest.empty();) {
      const auto end = rest.find('\n');
      request.private_headers.emplace_back(rest.substr(0, end));
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    }
  return request;
}

class HttpFile final : public HttpObject {
 public:
  HttpFile(std::string path, HttpRequest address, ObjectVersion version)
      : path_(std::move(path)), address_(std::move(address)), version_(std::move(version)) {
    // A weak tag never matches here; it is compared with that of each answer.
    if (!version_.etag.empty() && !version_.etag.starts_with("W/"))
      address_.headers.push_back("If-Match: " + version_.etag);
  }
  const std::string& path() const override { return path_; }
  const ObjectVersion& version() const override { return version_; }
  HttpRequest request(bool) const override { return address_; }
  void forget() const override { recent_objects().forget(path_); }

 private:
  const std::string path_;
  HttpRequest address_;
  const ObjectVersion version_;
};

[[noreturn]] void throw_refused_url(const std::string& path, const HttpAnswer& answer) {
  throw_error(ErrorKind::kIo, path, "the server does not give it: {}", describe_refusal(answer));
}

[[noreturn]] void throw_whole_only(const std::string& path) {
  throw_error(ErrorKind::kUnsupported, path,
              "the server sends whole files only, and no ranges of them: copy it to a local disk");
}

// A server may answer no HEAD, as one does that it sends on to by an address signed for GET, or
// with no size.
bool is_told_by_head(const HttpAnswer& answer) {
  if (answer.status == 404 || answer.status == 410) return true;
  if (answer.status == 200) return is_page(answer) || version_of(answer).has_value();
  return is_transient(answer) || (answer.status / 100 != 4 && answer.status != 501);
}

// Its first byte comes with all that a HEAD tells.
HttpAnswer ask_first_byte(HttpRequest address) {
  std::byte first{};
  address.out = {&first, 1};
  return ask_until_answered(address);
}

// Empty where there is nothing.
std::optional<ObjectVersion> ask_version(const std::string& path, const HttpRequest& address) {
  HttpRequest head = address;
  head.method = "HEAD";
  HttpAnswer answer = ask_until_answered(head);
  const bool is_of_head = is_told_by_head(answer);
  if (!is_of_head) answer = ask_first_byte(address);
  if (answer.status == 404 || answer.status == 410) return std::nullopt;
  if (answer.status / 100 != 2 && answer.status != 416) throw_refused_url(path, answer);
  if (is_page(answer)) throw_error(ErrorKind::kCorruptData, path, "{}", kPageSent);
  auto version = is_of_head ? version_of(answer) : version_of_first_byte(answer);
  if (!is_of_head && answer.status == 200 && (!version || version->size > 0))
    throw_whole_only(path);
  if (!version)
    throw_error(ErrorKind::kUnsupported, path,
                "the server does not say how large it is, so that it cannot be read in parts: copy "
                "it to a local disk");
  if (answer.header("accept-ranges") == "none") throw_whole_only(path);
  return version;
}

// Times are of seconds, and tags of many servers are made of them: what was written in the second
// that the server is in may be written again with the same.
bool is_settled(const ObjectVersion& version) {
  return version.modified_s < 0 || version.seen_s < 0 || version.seen_s > version.modified_s;
}

// Empty where there is nothing.
std::optional<ObjectVersion> look(const std::string& path, const HttpRequest& address) {
  if (auto known = recent_objects().find(path)) return known;
  auto version = ask_version(path, address);
  if (version && !is_settled(*version)) {
    exec::sleep_unless_stopped(kTick);
    version = ask_version(path, address);
  }
  if (version) recent_objects().keep(path, *version);
  return version;
}

class HttpFileSystem final : public io::FileSystem {
 public:
  io::PathStatus status(const std::string& path) const override {
    const auto version = look(path, address(path));
    if (!version) return {};
    return status_of_object(without_slash(path), *version);
  }
  std::unique_ptr<io::ByteSource> open(const std::string& path,
                                       const io::LocalFileOptions& options) const override {
    HttpRequest where = address(path);
    auto version = look(path, where);
    if (!version) throw_error(ErrorKind::kNotFound, path, "there is no such file on the server");
    auto source = make_http_source(
        std::make_shared<const HttpFile>(path, std::move(where), *version), "http");
    return cached_where_asked(std::move(source), parse_bucket_path(path), *version, options);
  }
  std::shared_ptr<const io::OpenDirectory> open_directory(const std::string& path) const override {
    refuse_to_list(path);
  }
  void visit_files(const std::string& path, const io::FileVisitor&) const override {
    refuse_to_list(path);
  }
  void make_directories(const std::string& path) const override { refuse_to_write(path); }
  void remove(const std::string& path) const override { refuse_to_write(path); }
  std::string canonical(const std::string& path) const override { return without_slash(path); }
  void require_writable_folder(const std::string& path) const override { refuse_to_write(path); }

 private:
  [[noreturn]] static void refuse_to_list(const std::string& path) {
    throw_error(ErrorKind::kUnsupported, path,
                "folders of an http server cannot be listed or written to: name the files");
  }
  [[noreturn]] static void refuse_to_write(const std::string& path) {
    throw_error(ErrorKind::kUnsupported, path, "http(s) paths are read and not written");
  }
};

}  // namespace

std::shared_ptr<const io::FileSystem> make_http_file_system() {
  return std::make_shared<const HttpFileSystem>();
}

}  // namespace cellfeed::cloud
