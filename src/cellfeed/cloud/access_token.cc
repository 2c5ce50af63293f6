#include "cellfeed/cloud/access_token.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/cloud/http/http_ask.h"
#include "cellfeed/cloud/http/http_object.h"
#include "cellfeed/cloud/percent.h"
#include "cellfeed/exec/fork_guard.h"
#include "cellfeed/exec/stop_scope.h"

namespace cellfeed::cloud {
namespace {

// Servers of machines give the same token until about four minutes before its end.
constexpr std::chrono::seconds kSpare{225};
constexpr std::chrono::seconds kLeastAge{1};
constexpr std::int64_t kUsualSeconds = 3600;

struct Kept {
  AccessToken token;
  Clock::time_point made{};
  bool is_asked_for = false;
};

struct Tokens {
  std::mutex mutex;  // guards what follows
  std::condition_variable_any changed;
  std::map<std::string, Kept> of_accounts;
};

// Microsoft's servers on virtual machines give it as a text.
std::int64_t seconds_of(const nlohmann::json& answer) {
  const auto found = answer.find("expires_in");
  if (found == answer.end()) return kUsualSeconds;
  if (found->is_number()) return found->get<std::int64_t>();
  return found->is_string() ? parse_count(found->get<std::string>()).value_or(kUsualSeconds)
                            : kUsualSeconds;
}

AccessToken token_of_answer(const HttpAnswer& answer, const std::string& path) {
  if (answer.status != 200 || !answer.is_whole())
    throw_error(ErrorKind::kIo, path, "no access token was given for the credentials found: {}",
                describe_refusal(answer));
  const auto body = nlohmann::json::parse(answer.body, nullptr, false);
  const auto token = body.is_object() ? body.find("access_token") : body.end();
  if (token == body.end() || !token->is_string() || token->get<std::string>().empty())
    throw_error(ErrorKind::kIo, path, "the server of access tokens answered without one");
  return {token->get<std::string>(), Clock::now() + std::chrono::seconds(seconds_of(body))};
}

}  // namespace

AccessToken ask_for_token(const HttpRequest& request, const std::string& path) {
  return token_of_answer(ask_until_answered(request), path);
}

AccessToken ask_machine_for_token(const HttpRequest& request, const std::string& path,
                                  std::string_view other_ways) {
  HttpRequest direct = request;
  direct.is_direct = true;
  const HttpAnswer answer = ask(std::move(direct), kMachineTimeouts);
  if (answer.status != 200)
    throw_error(ErrorKind::kIo, path, "no credentials were found: {}", other_ways);
  return token_of_answer(answer, path);
}

HttpRequest token_form(std::string url,
                       std::initializer_list<std::pair<std::string_view, std::string_view>> form) {
  HttpRequest request;
  request.method = "POST";
  request.url = std::move(url);
  request.content_type = "application/x-www-form-urlencoded";
  for (const auto& [name, value] : form)
    request.body += fmt::format("{}{}={}", request.body.empty() ? "" : "&", percent_encoded(name),
                                percent_encoded(value));
  return request;
}

std::string kept_token(const std::string& name, bool fresh,
                       const std::function<AccessToken()>& ask_for_one) {
  static auto* all = new exec::PerProcess<std::unique_ptr<Tokens>>;
  Tokens& tokens = *all->get([] { return std::make_unique<Tokens>(); });
  std::unique_lock lock(tokens.mutex);
  Kept& kept = tokens.of_accounts[name];
  // One asks, and the others wait for it.
  exec::wait_unless_stopped(tokens.changed, lock, [&] { return !kept.is_asked_for; });
  const auto now = Clock::now();
  const bool is_good = !kept.token.text.empty() && now + kSpare < kept.token.end;
  // Refused for several at once, it is asked for once.
  if (is_good && (!fresh || now - kept.made < kLeastAge)) return kept.token.text;
  kept.is_asked_for = true;
  lock.unlock();
  const auto end = [&] {
    lock.lock();
    kept.is_asked_for = false;
    tokens.changed.notify_all();
  };
  try {
    AccessToken token = ask_for_one();
    end();
    kept.token = std::move(token);
    kept.made = Clock::now();
    return kept.token.text;
  } catch (...) {
    if (!lock.owns_lock()) end();
    throw;
  }
}

}  // namespace cellfeed::cloud
