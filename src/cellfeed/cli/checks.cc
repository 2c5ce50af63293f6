#include "cellfeed/cli/checks.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "cellfeed/base/nearest_name.h"

namespace cellfeed::cli {
namespace {

template <typename Number>
std::optional<Number> parse_whole(const std::string& text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && stop == end) return number;
  return std::nullopt;
}

// "1e5", "10k" and "2M" are whole numbers written otherwise.
std::optional<std::int64_t> meant_number(const std::string& text) {
  char* rest = nullptr;
  double value = std::strtod(text.c_str(), &rest);
  if (rest == text.c_str()) return std::nullopt;
  const std::string unit = rest;
  if (unit == "k" || unit == "K")
    value *= 1e3;
  else if (unit == "m" || unit == "M")
    value *= 1e6;
  else if (!unit.empty())
    return std::nullopt;
  if (!(value >= 0 && value < 1e18) || value != std::floor(value)) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

std::optional<double> parse_number(const std::string& text) {
  char* rest = nullptr;
  const double value = std::strtod(text.c_str(), &rest);
  if (text.empty() || *rest != '\0' || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::string joined_with_or(const std::vector<std::string>& choices) {
  std::string text;
  for (std::size_t i = 0; i < choices.size(); ++i)
    text += (i == 0 ? "" : i + 1 == choices.size() ? " or " : ", ") + choices[i];
  return text;
}

std::vector<std::string> verbs_of(const CLI::App& program) {
  std::vector<std::string> names;
  for (const CLI::App* verb : program.get_subcommands(nullptr)) names.push_back(verb->get_name());
  return names;
}

std::vector<std::string> options_of(const CLI::App& verb) {
  std::vector<std::string> names;
  for (const CLI::Option* option : verb.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::string unknown_option(const CLI::App& verb, const std::string& given) {
  const std::string name = given.substr(0, given.find('='));
  const std::string nearest = nearest_name(name, options_of(verb));
  return fmt::format("{} has no option {}{}", verb.get_name(), name,
                     nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest));
}

}  // namespace

CLI::Validator whole_number(std::int64_t low, std::int64_t high) {
  return CLI::Validator(
      [low, high](const std::string& text) -> std::string {
        const auto number = parse_whole<std::int64_t>(text);
        if (number && *number >= low && *number <= high) return {};
        const bool is_bounded = high != std::numeric_limits<std::int64_t>::max();
        std::string message = fmt::format("must be a whole number {}, not '{}'",
                                          is_bounded ? fmt::format("from {} to {}", low, high)
                                                     : fmt::format("of at least {}", low),
                                          text);
        const auto meant = number ? std::nullopt : meant_number(text);
        if (meant && *meant >= low && *meant <= high)
          message += fmt::format("; write it out: {}", *meant);
        return message;
      },
      "");
}

CLI::Validator number_between(double low, double high) {
  return CLI::Validator(
      [low, high](const std::string& text) -> std::string {
        const auto number = parse_number(text);
        if (number && *number >= low && *number <= high) return {};
        return fmt::format("must be a number from {} to {}, not '{}'", low, high, text);
      },
      "");
}

CLI::Validator positive_number() {
  return CLI::Validator(
      [](const std::string& text) -> std::string {
        const auto number = parse_number(text);
        if (number && *number > 0) return {};
        return fmt::format("must be a number above 0, not '{}'", text);
      },
      "");
}

CLI::Validator one_of(std::vector<std::string> choices) {
  return CLI::Validator(
      [choices = std::move(choices)](const std::string& text) -> std::string {
        if (std::find(choices.begin(), choices.end(), text) != choices.end()) return {};
        const std::string nearest = nearest_name(text, choices);
        return fmt::format("must be {}, not '{}'{}", joined_with_or(choices), text,
                           nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest));
      },
      "");
}

std::string usage_error(const CLI::App& program, const std::vector<std::string>& arguments,
                        const CLI::ParseError& error) {
  const CLI::App* verb = &program;
  std::string called = "cellfeed";
  for (auto chosen = verb->get_subcommands(); !chosen.empty(); chosen = verb->get_subcommands()) {
    verb = chosen[0];
    called += " " + verb->get_name();
  }
  const std::string help = fmt::format("; see {} --help", called);
  const std::vector<std::string> verbs = verbs_of(*verb);
  const std::vector<std::string> rest = verb == &program ? arguments : verb->remaining();
  if (!verbs.empty()) {
    if (rest.empty()) return fmt::format("a verb is needed: {}{}", joined_with_or(verbs), help);
    if (rest[0].starts_with("-")) return unknown_option(*verb, rest[0]) + help;
    return fmt::format("there is no verb '{}'{}{}", rest[0], suggestion(rest[0], verbs), help);
  }
  // A mistyped option is the reason why the right one is missing.
  for (const std::string& argument : rest)
    if (argument.size() > 1 && argument[0] == '-') return unknown_option(*verb, argument) + help;
  if (!rest.empty())
    return fmt::format("{} takes no argument '{}'", verb->get_name(), rest[0]) + help;
  return error.what() + help;
}

}  // namespace cellfeed::cli
