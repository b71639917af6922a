#include "tools/options/training_run.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "profiles/device_names.hpp"
#include "profiles/error.hpp"
#include "profiles/text.hpp"
#include "tools/reports/results.hpp"
#include "tools/table.hpp"

namespace stagecraft {

namespace {

/// "15T", "300B", "1e12", "2.5M".
double read_tokens(const std::string& text) {
  const std::string trimmed = trim(text);
  std::size_t used = 0;
  double number = 0;
  try {
    number = std::stod(trimmed, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  const std::string unit = trim(trimmed.substr(used));
  const double factor = unit.empty()                 ? 1
                        : unit == "k" || unit == "K" ? 1e3
                        : unit == "M"                ? 1e6
                        : unit == "B" || unit == "G" ? 1e9
                        : unit == "T"                ? 1e12
                                                     : 0;
  constexpr double most = 1e18;
  const double tokens = number * factor;
  if (used == 0 || !(tokens >= 1 && tokens <= most)) {
    fail_usage("--tokens: expected the tokens of a whole run, such as 15T, 300B or 2.5M, found \"",
               text, "\"");
  }
  return tokens;
}

std::optional<double> price_of_all(const std::vector<int>& devices, const Cluster& cluster) {
  double price = 0;
  for (const int device : devices) {
    const std::optional<double>& one = kind_of(cluster, device).price_per_hour;
    if (!one) return {};
    price += *one;
  }
  return price;
}

}  // namespace

void declare_training_run(CLI::App& app, TrainingRunFlags& flags) {
  app.add_option("--tokens", flags.tokens,
                 "Tokens of a whole training run, whose duration is printed, and with --price its "
                 "cost: 15T, 300B")
      ->type_name("N");
  app.add_option("--price", flags.prices, "Price of a device kind per hour: a100=2.5/h")
      ->type_name("KIND=P/h")
      ->delimiter(',');
}

void set_price(Cluster& cluster, const std::string& text) {
  const std::size_t equals = text.find('=');
  std::vector<std::string> known;
  for (const DeviceKind& kind : cluster.kinds) known.push_back(kind.name);
  double price = 0;
  int used = 0;
  const bool is_read = equals != std::string::npos &&
                       std::sscanf(text.c_str() + equals + 1, "%lf/h%n", &price, &used) == 1 &&
                       used == static_cast<int>(text.size() - equals - 1) && price > 0 &&
                       price < 1e12;
  if (!is_read) {
    fail_usage("--price: expected KIND=PRICE/h, a price above zero, as ", known.front(),
               "=2.5/h, found \"", text, "\"");
  }
  const std::string name = text.substr(0, equals);
  auto kind = std::find(known.begin(), known.end(), name);
  if (kind == known.end())
    kind = std::find(known.begin(), known.end(), builtin_device_kind_called(name));
  if (kind == known.end()) fail_unknown("device kind", name, known);
  cluster.kinds[static_cast<std::size_t>(kind - known.begin())].price_per_hour = price;
}

std::optional<TrainingRun> training_run(const std::string& tokens, const Plan& plan,
                                        const Cluster& cluster, Duration step) {
  if (tokens.empty()) return {};
  TrainingRun run{.tokens = tokens, .count = read_tokens(tokens), .cost = {}};
  if (plan.batch.sequence == 0)
    fail_usage("--tokens: samples of \"", plan.model, "\" are not sequences of tokens");
  const std::vector<int> devices = used_devices(plan);
  run.steps = std::ceil(run.count / (static_cast<double>(plan.batch.global) *
                                     static_cast<double>(plan.batch.sequence)));
  run.hours = run.steps * seconds(step) / 3600;
  run.device_hours = run.hours * static_cast<double>(devices.size());
  if (const auto price = price_of_all(devices, cluster)) run.cost = *price * run.hours;
  return run;
}

std::string words_of_hours(double hours) {
  constexpr double day = 24, year = 365 * day;
  if (hours < 1) return readable(hours * 60, 3) + " minutes";
  if (hours < 2 * day) return readable(hours, 3) + " hours";
  return hours < 2 * year ? readable(hours / day, 3) + " days"
                          : readable(hours / year, 3) + " years";
}

std::string training_run_sentence(const std::optional<TrainingRun>& run, const Plan& plan,
                                  const Cluster& cluster) {
  if (!run) return "";
  return fmt::format("{} tokens take {}: {} {}, {} {}-hours{}\n", run->tokens,
                     words_of_hours(run->hours), readable(run->steps, 5),
                     run->steps == 1 ? "step" : "steps", readable(run->device_hours),
                     device_word(plan, cluster),
                     run->cost ? fmt::format(", which cost {}", readable(*run->cost)) : "");
}

void add_training_run(nlohmann::ordered_json& result, const std::optional<TrainingRun>& run) {
  if (!run) return;
  result["training"] = {{"tokens", run->count},
                        {"steps", run->steps},
                        {"hours", run->hours},
                        {"device_hours", run->device_hours}};
  if (run->cost) result["training"]["cost"] = *run->cost;
}

}  // namespace stagecraft
