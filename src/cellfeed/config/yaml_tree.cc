#include "cellfeed/config/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <memory>
#include <sstream>
#include <utility>

#include "cellfeed/base/error.h"

namespace cellfeed::config {
namespace {

constexpr std::size_t kMaxKeys = 1000;
constexpr int kMaxIndentation = 1000;

Place place_of(const YAML::Mark& mark) { return {mark.line + 1, mark.column + 1}; }

// Bytes of the UTF-8 character that begins at `at`; 0 where there is none (RFC 3629).
std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto is_tail = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned first = byte(at), second = byte(at + 1);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return is_tail(at + 1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if (!is_tail(at + 1) || !is_tail(at + 2)) return 0;
    if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F)) return 0;
    return 3;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (!is_tail(at + 1) || !is_tail(at + 2) || !is_tail(at + 3)) return 0;
    if ((first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F)) return 0;
    return 4;
  }
  return 0;
}

// YAML allows no tab there, and its parsers say so in odd ways.
bool is_tab_in_indentation(std::string_view text, std::size_t at) {
  const std::size_t line = text.rfind('\n', at) + 1;
  const std::size_t first = text.find_first_not_of(" \t", line);
  return text[at] == '\t' && first != std::string_view::npos && at < first && text[first] != '\n' &&
         text[first] != '\r' && text[first] != '#';
}

void check_bytes(std::string_view text, const std::string& path) {
  if (std::ssize(text) > kMaxConfigBytes)
    throw_error(ErrorKind::kInvalidArgument, path,
                "{} bytes are more than a configuration ever holds ({})", text.size(),
                kMaxConfigBytes);
  Place place{1, 1};
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text, i);
    const auto byte = static_cast<unsigned char>(text[i]);
    if (length == 0)
      refuse_at(path, place,
                fmt::format("byte 0x{:02x} is not UTF-8; save the file as UTF-8", byte));
    if (byte < 0x20 && byte != '\n' && byte != '\r' && byte != '\t')
      refuse_at(path, place, fmt::format("a control character (0x{:02x}); remove it", byte));
    if (byte == '\t' && place.column <= kMaxIndentation && is_tab_in_indentation(text, i))
      refuse_at(path, place, "a tab in the indentation; use spaces");
    ++place.column;
    if (byte == '\n') place = {place.line + 1, 1};
    i += length;
  }
}

// Follows the events of the parser; throws as soon as something is not ours, so that nothing larger
// than the text is ever built.
class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(const std::string& path, YamlNode& root) : path_(path), root_(root) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    if (wants_key()) refuse_at(path_, place_of(mark), "a key is missing before ':'");
    add({.kind = YamlNode::Kind::kNull, .place = place_of(mark)});
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { refuse_anchor(mark, 1); }
  void OnAnchor(const YAML::Mark& mark, const std::string&) override { refuse_anchor(mark, 1); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    if (wants_key()) return begin_entry(value, place_of(mark));
    add({.kind = YamlNode::Kind::kScalar,
         .place = place_of(mark),
         .text = value,
         .is_quoted = tag == "!"});
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(YamlNode::Kind::kList, mark, tag, anchor);
  }
  void OnSequenceEnd() override { open_.pop_back(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(YamlNode::Kind::kMap, mark, tag, anchor);
  }
  void OnMapEnd() override { open_.pop_back(); }

 private:
  struct Open {
    YamlNode* node;
    bool has_key = false;  // of a map: the last entry waits for its value
  };

  bool wants_key() const {
    return !open_.empty() && open_.back().node->kind == YamlNode::Kind::kMap &&
           !open_.back().has_key;
  }
  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) const {
    if (anchor != 0)
      refuse_at(path_, place_of(mark),
                "anchors (&name) and aliases (*name) are not read here; write the value out, or "
                "quote it where it is text");
  }
  void refuse_tag(const YAML::Mark& mark, const std::string& tag) const {
    if (!tag.empty() && tag != "?" && tag != "!")
      refuse_at(path_, place_of(mark),
                fmt::format("the tag '{}' is not read here; remove it", tag));
  }
  void begin_entry(const std::string& key, const Place& place) {
    YamlNode& map = *open_.back().node;
    if (map.entries.size() >= kMaxKeys)
      refuse_at(path_, place, fmt::format("a group of more than {} keys", kMaxKeys));
    for (const YamlNode::Entry& entry : map.entries)
      if (entry.key == key)
        refuse_at(path_, place,
                  fmt::format("'{}' is there twice, first at line {}; remove one", key,
                              entry.place.line));
    map.entries.push_back({key, place, {}});
    open_.back().has_key = true;
  }
  // Lifetime: until the next sibling is added, and none is while it is open.
  YamlNode* add(YamlNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return &root_;
    }
    Open& parent = open_.back();
    if (parent.node->kind == YamlNode::Kind::kList) {
      parent.node->items.push_back(std::move(node));
      return &parent.node->items.back();
    }
    parent.has_key = false;
    parent.node->entries.back().value = std::move(node);
    return &parent.node->entries.back().value;
  }
  void open(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag,
            YAML::anchor_t anchor) {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    if (wants_key()) refuse_at(path_, place_of(mark), "a key must be a name, not a list or a map");
    if (open_.size() >= kMaxConfigDepth)
      refuse_at(path_, place_of(mark),
                fmt::format("nested deeper than {} levels", kMaxConfigDepth));
    open_.push_back({add({.kind = kind, .place = place_of(mark)})});
  }

  const std::string& path_;
  YamlNode& root_;
  std::vector<Open> open_;
};

}  // namespace

void refuse_at(const std::string& path, const Place& place, const std::string& what) {
  throw_error(ErrorKind::kInvalidArgument, path, "line {}, column {}: {}", place.line, place.column,
              what);
}

YamlNode parse_yaml(std::string_view text, const std::string& path) {
  check_bytes(text, path);
  std::istringstream stream{std::string(text)};
  YamlNode root;
  try {
    YAML::Parser parser(stream);
    TreeBuilder builder(path, root);
    if (parser.HandleNextDocument(builder)) {
      YamlNode second;
      TreeBuilder rest(path, second);
      if (parser.HandleNextDocument(rest))
        throw_error(ErrorKind::kInvalidArgument, path,
                    "holds two documents ('---' between them); keep one");
    }
  } catch (const YAML::Exception& error) {
    refuse_at(path, place_of(error.mark), fmt::format("not YAML: {}", error.msg));
  }
  return root;
}

}  // namespace cellfeed::config
