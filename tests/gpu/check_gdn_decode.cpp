#include "tests/gpu/checks.h"

#include "kernels/cuda/gdn_decode.h"
#include "kernels/cuda/w4_gemm.h"

namespace octavo::gpu
{
namespace
{

using namespace kernels::cuda;

/// The inputs of one sequence over some rows, on the host and on the device.
struct Rows {
    std::vector<float> qkv, beta, decay, gate;
    DeviceArray<__nv_bfloat16> qkvDevice, betaDevice, decayDevice, gateDevice;

    Rows(Random& random, const GdnLayer& layer, int rows)
        : qkv(randomBf16(random, std::size_t(rows) * layer.convDim()))
        , beta(randomBf16(random, std::size_t(rows) * layer.valueHeads))
        , decay(randomBf16(random, std::size_t(rows) * layer.valueHeads))
        , gate(randomBf16(random, std::size_t(rows) * layer.valueDim()))
        , qkvDevice(toBf16(qkv))
        , betaDevice(toBf16(beta))
        , decayDevice(toBf16(decay))
        , gateDevice(toBf16(gate))
    {
    }
};

/// A layer's parameters of random values, on the host and on the device.
struct Parameters {
    std::vector<float> aLog, dtBias, norm;
    DeviceArray<float> aLogDevice, dtBiasDevice, normDevice;

    Parameters(Random& random, int valueHeads)
        : aLog(uniforms(random, valueHeads, -1.0, 2.0))
        , dtBias(uniforms(random, valueHeads, -3.0, 1.0))
        , norm(uniforms(random, gdnHeadDim, 0.5, 1.5))
        , aLogDevice(aLog)
        , dtBiasDevice(dtBias)
        , normDevice(norm)
    {
    }

    GdnLayer onHost(int keyHeads) const
    {
        return {keyHeads, int(aLog.size()), aLog.data(), dtBias.data(), norm.data(), 1e-6f};
    }

    GdnLayer onDevice(int keyHeads) const
    {
        return {keyHeads, int(aLog.size()), aLogDevice.data(), dtBiasDevice.data(), normDevice.data(), 1e-6f};
    }

private:
    static std::vector<float> uniforms(Random& random, int count, double low, double high)
    {
        std::vector<float> values;
        for (int i = 0; i < count; ++i)
            values.push_back(float(random.uniform(low, high)));
        return values;
    }
};

void checkConv(Report& report)
{
    Random random(2);
    for (const int channels : {2, 130, 2048}) {
        const std::vector<float> weights = randomBf16(random, std::size_t(channels) * 4);
        const DeviceArray<float> weightsDevice(weights);
        for (const int rows : {1, 3, 8, 130}) {
            for (const int pending : {0, 1, 2, 5}) {
                const std::vector<float> history = randomBf16(random, std::size_t(3) * channels);
                const std::vector<float> pendingRows = randomBf16(random, std::size_t(pending) * channels);
                const std::vector<float> input = randomBf16(random, std::size_t(rows) * channels);
                std::vector<float> stream = pendingRows;
                stream.insert(stream.end(), input.begin(), input.end());
                for (const bool final : {true, false}) {
                    DeviceArray<__nv_bfloat16> historyDevice(toBf16(history)), inputDevice(toBf16(input));
                    DeviceArray<__nv_bfloat16> pendingDevice(toBf16(pendingRows)), output(input.size());
                    const ConvSequence sequence{historyDevice.data(),
                                                pendingDevice.data(),
                                                inputDevice.data(),
                                                output.data(),
                                                pending,
                                                rows,
                                                final ? rows : 0,
                                                channels};
                    const DeviceArray<ConvSequence> sequences(std::vector<ConvSequence>{sequence});
                    OCTAVO_REQUIRE(
                        launchGdnConv(sequences.data(), 1, rows, channels, weightsDevice.data(), {}, nullptr));

                    std::vector<double> wantHistory(history.begin(), history.end());
                    std::vector<double> want(stream.size());
                    referenceGdnConv(wantHistory.data(), stream.data(), final ? pending + rows : pending, channels,
                                     weights.data(), want.data());
                    std::vector<double> scratch(history.begin(), history.end());
                    referenceGdnConv(scratch.data(), stream.data(), pending + rows, channels, weights.data(),
                                     want.data());
                    const std::string name = "conv channels=" + std::to_string(channels) +
                                             " rows=" + std::to_string(rows) + " pending=" + std::to_string(pending);
                    compare(report, name, toFloat(output.download()),
                            {want.begin() + std::ptrdiff_t(pending) * channels, want.end()}, 4e-3);
                    compare(report, name + " history", toFloat(historyDevice.download()), wantHistory, 0.0);
                }
            }
        }
    }
}

} // namespace

/// Input rows that lie apart, and the two projections that share the launch.
void checkGdnInput(Report& report)
{
    Random random(31);
    for (const auto& [tokens, hidden, outputs] :
         {std::tuple{1, 512, 8}, {3, 5120, 48}, {17, 1032, 3}, {64, 10240, 5}}) {
        const int channels = 96, stride = 160;
        const std::vector<float> x = randomBf16(random, std::size_t(tokens) * hidden);
        const std::vector<float> projection = randomBf16(random, std::size_t(2 * outputs) * hidden, 0.1);
        const std::vector<float> input = randomBf16(random, std::size_t(tokens) * stride);
        const DeviceArray<__nv_bfloat16> xDevice(toBf16(x)), projectionDevice(toBf16(projection));
        const DeviceArray<__nv_bfloat16> inputDevice(toBf16(input));
        std::vector<float> dense, weights(std::size_t(channels) * 4);
        for (float& w : weights)
            w = float(random.normal());
        for (int t = 0; t < tokens; ++t)
            dense.insert(dense.end(), input.begin() + t * stride, input.begin() + t * stride + channels);
        const DeviceArray<float> weightsDevice(weights);
        DeviceArray<__nv_bfloat16> history(std::size_t(3) * channels), output(dense.size());
        DeviceArray<__nv_bfloat16> y0(std::size_t(tokens) * outputs), y1(std::size_t(tokens) * outputs);
        history.zero();
        const DeviceArray<ConvSequence> sequence(std::vector<ConvSequence>{
            {history.data(), nullptr, inputDevice.data(), output.data(), 0, tokens, tokens, stride}});
        const GdnProjection both{
            {xDevice.data(), tokens, hidden, hidden}, projectionDevice.data(), y0.data(), y1.data(), outputs};
        OCTAVO_REQUIRE(launchGdnConv(sequence.data(), 1, tokens, channels, weightsDevice.data(), both, nullptr));
        std::vector<double> zeros(std::size_t(3) * channels), want(dense.size());
        referenceGdnConv(zeros.data(), dense.data(), tokens, channels, weights.data(), want.data());
        compare(report, "gdn input: convolution of rows apart", toFloat(output.download()), want, 4e-3);
        for (const bool second : {false, true}) {
            std::vector<double> sums;
            for (int t = 0; t < tokens; ++t) {
                for (int n = 0; n < outputs; ++n) {
                    double sum = 0.0;
                    for (int k = 0; k < hidden; ++k)
                        sum += double(x[std::size_t(t) * hidden + k]) *
                               projection[std::size_t(n + (second ? outputs : 0)) * hidden + k];
                    sums.push_back(sum);
                }
            }
            compare(report, "gdn input: projection", toFloat((second ? y1 : y0).download()), sums, 4e-3);
        }
    }
}

/// A row's outputs of the two projections, scaled by its norm or not, are those that it gets alone.
void checkProjectedRows(Report& report)
{
    Random random(12);
    for (const auto& [tokens, hidden, outputs] : {std::tuple{9, 5120, 48}, {32, 5120, 48}, {61, 1024, 3}}) {
        const std::size_t parts = std::size_t(hidden) / w4SquareValues;
        const DeviceArray<__nv_bfloat16> x(toBf16(randomBf16(random, std::size_t(tokens) * hidden)));
        const DeviceArray<__nv_bfloat16> weights(toBf16(randomBf16(random, std::size_t(2 * outputs) * hidden, 0.1)));
        std::vector<float> squares(std::size_t(tokens) * parts);
        for (float& square : squares)
            square = float(random.uniform(1.0, 60.0));
        const DeviceArray<float> squaresDevice(squares), convWeights(std::vector<float>(8, 0.0f));
        DeviceArray<__nv_bfloat16> history(6);
        const DeviceArray<ConvSequence> nothing(
            std::vector<ConvSequence>{{history.data(), nullptr, nullptr, nullptr, 0, 0, 0, 2}});
        const auto project = [&](int first, int rows, bool scaled) {
            DeviceArray<__nv_bfloat16> y0(std::size_t(rows) * outputs), y1(y0.size());
            const GdnProjection projection{{x.data() + std::int64_t{first} * hidden, rows, hidden, hidden},
                                           weights.data(),
                                           y0.data(),
                                           y1.data(),
                                           outputs,
                                           scaled ? squaresDevice.data() + std::int64_t(first * parts) : nullptr,
                                           1e-6f};
            OCTAVO_REQUIRE(launchGdnConv(nothing.data(), 1, 0, 2, convWeights.data(), projection, nullptr));
            std::vector<float> values = toFloat(y0.download());
            const std::vector<float> second = toFloat(y1.download());
            values.insert(values.end(), second.begin(), second.end());
            return values;
        };
        for (const bool scaled : {false, true}) {
            const std::vector<float> all = project(0, tokens, scaled);
            int others = 0;
            for (int row = 0; row < tokens; ++row) {
                const std::vector<float> alone = project(row, 1, scaled);
                for (int half = 0; half < 2; ++half)
                    others += std::memcmp(&alone[std::size_t(half * outputs)],
                                          &all[std::size_t((half * tokens + row) * outputs)],
                                          std::size_t(outputs) * sizeof(float)) != 0;
            }
            report.expect(others == 0, "gdn input: %d of %d rows are projected otherwise than alone", others,
                          2 * tokens);
        }
    }
}

/// Rows of a verify become pending, those of a final step do not.
void checkGdnKeep(Report& report)
{
    const GdnLayer layer{2, 6, nullptr, nullptr, nullptr, 1e-6f};
    const int channels = layer.convDim(), stride = channels + layer.valueDim(), heads = layer.valueHeads;
    constexpr int most = 5;
    const int rows[] = {1, 5, 3}, store[] = {1, 0, 0};
    Random random(9);
    const auto values = [&](std::size_t count) {
        return DeviceArray<__nv_bfloat16>(toBf16(randomBf16(random, count)));
    };
    const auto bits = [](const DeviceArray<__nv_bfloat16>& array) {
        const std::vector<__nv_bfloat16> all = array.download();
        std::vector<std::uint16_t> words(all.size());
        std::memcpy(words.data(), all.data(), 2 * all.size());
        return words;
    };
    struct Sequence {
        DeviceArray<__nv_bfloat16> input, qkv, beta, decay, keptInput, keptQkv, keptBeta, keptDecay;
    };
    std::vector<Sequence> kept;
    std::vector<ConvSequence> conv;
    std::vector<GdnSequence> gdn;
    for (int i = 0; i < 3; ++i) {
        const auto room = [&](int columns) { return DeviceArray<__nv_bfloat16>(std::size_t(most) * columns); };
        kept.push_back({values(std::size_t(rows[i]) * stride), values(std::size_t(rows[i]) * channels),
                        values(std::size_t(rows[i]) * heads), values(std::size_t(rows[i]) * heads), room(channels),
                        room(channels), room(heads), room(heads)});
        const Sequence& s = kept.back();
        conv.push_back({nullptr, s.keptInput.data(), s.input.data(), nullptr, 0, rows[i], store[i], stride});
        gdn.push_back({nullptr, s.keptQkv.data(), s.keptBeta.data(), s.keptDecay.data(), s.qkv.data(), s.beta.data(),
                       s.decay.data(), nullptr, nullptr, 0, rows[i], store[i], stride});
    }
    const DeviceArray<ConvSequence> convDevice(conv);
    const DeviceArray<GdnSequence> gdnDevice(gdn);
    OCTAVO_REQUIRE(launchGdnKeep(convDevice.data(), gdnDevice.data(), 3, most, layer, nullptr));
    for (int i = 0; i < 3; ++i) {
        const Sequence& s = kept[std::size_t(i)];
        const auto expectRows = [&](const char* what, const DeviceArray<__nv_bfloat16>& to,
                                    const DeviceArray<__nv_bfloat16>& from, int columns, int fromStride) {
            const std::vector<std::uint16_t> got = bits(to), source = bits(from);
            bool same = true;
            for (int row = 0; row < most; ++row) {
                for (int c = 0; c < columns; ++c) {
                    const bool isKept = store[i] == 0 && row < rows[i];
                    same &= got[std::size_t(row * columns + c)] ==
                            (isKept ? source[std::size_t(row * fromStride + c)] : std::uint16_t(0xffff));
                }
            }
            report.expect(same, "gdn keep: %s of sequence %d", what, i);
        };
        expectRows("inputs", s.keptInput, s.input, channels, stride);
        expectRows("convolved rows", s.keptQkv, s.qkv, channels, channels);
        expectRows("betas", s.keptBeta, s.beta, heads, heads);
        expectRows("decays", s.keptDecay, s.decay, heads, heads);
    }
}

/// A row's output and the state behind it have the bits of single steps, whether the row comes with others, in a verify
/// behind accepted rows, or is replayed as one of those; and whether few or many sequences share the launch.
void checkGdnRowsTogether(Report& report)
{
    constexpr int keyHeads = 2, valueHeads = 6;
    const int many = 2 * multiprocessors() / valueHeads + 1; // more blocks than two a multiprocessor
    Random random(17);
    const Parameters parameters(random, valueHeads);
    const GdnLayer layer = parameters.onDevice(keyHeads);
    const std::size_t stateFloats = std::size_t(valueHeads) * gdnHeadDim * gdnHeadDim;
    std::vector<float> initial;
    for (std::size_t i = 0; i < stateFloats; ++i)
        initial.push_back(float(random.normal() * 0.3));

    for (const auto& [accepted, count] : {std::pair{0, 8}, {4, 8}, {7, 1}, {3, 21}, {16, 2}}) {
        const int all = accepted + count;
        const Rows rows(random, layer, all);
        const std::size_t values = std::size_t(all) * layer.valueDim();
        /// States and outputs of equal sequences, as bits.
        struct Outcome {
            std::vector<std::uint32_t> states;
            std::vector<std::uint16_t> outputs;
        };
        /// `pending` rows from `first` on as accepted ones and `fresh` new ones behind them, `times` one after another.
        const auto run = [&](int sequences, int pending, int fresh, bool final, int times = 1) {
            std::vector<float> states;
            for (int i = 0; i < sequences; ++i)
                states.insert(states.end(), initial.begin(), initial.end());
            DeviceArray<float> state(states);
            DeviceArray<__nv_bfloat16> output(values * std::size_t(sequences));
            output.zero();
            const auto row = [](const DeviceArray<__nv_bfloat16>& array, int at, int columns) {
                return array.data() + std::int64_t{at} * columns;
            };
            for (int time = 0; time < times; ++time) {
                const int first = time * (pending + fresh), next = first + pending;
                std::vector<GdnSequence> list;
                for (int i = 0; i < sequences; ++i)
                    list.push_back(
                        {state.data() + std::size_t(i) * stateFloats, row(rows.qkvDevice, first, layer.convDim()),
                         row(rows.betaDevice, first, valueHeads), row(rows.decayDevice, first, valueHeads),
                         row(rows.qkvDevice, next, layer.convDim()), row(rows.betaDevice, next, valueHeads),
                         row(rows.decayDevice, next, valueHeads), row(rows.gateDevice, next, layer.valueDim()),
                         row(output, i * all + next, layer.valueDim()), pending, fresh, final ? fresh : 0,
                         layer.valueDim()});
                const DeviceArray<GdnSequence> device(list);
                OCTAVO_REQUIRE(launchGdnDecode(device.data(), sequences, layer, nullptr));
                OCTAVO_REQUIRE(cudaDeviceSynchronize());
            }
            states = state.download();
            const std::vector<__nv_bfloat16> outputs = output.download();
            Outcome outcome{std::vector<std::uint32_t>(states.size()), std::vector<std::uint16_t>(outputs.size())};
            std::memcpy(outcome.states.data(), states.data(), states.size() * sizeof(float));
            std::memcpy(outcome.outputs.data(), outputs.data(), outputs.size() * sizeof(__nv_bfloat16));
            return outcome;
        };
        const Outcome singly = run(1, 0, 1, true, all), afterAccepted = run(1, 0, 1, true, accepted);
        /// Whether every sequence's part of `got` is `want` from `from` on.
        const auto same = [](const auto& got, const auto& want, std::size_t from = 0) {
            bool equal = true;
            for (std::size_t first = 0; first < got.size(); first += want.size())
                equal &= std::equal(want.begin() + std::ptrdiff_t(from), want.end(),
                                    got.begin() + std::ptrdiff_t(first + from));
            return equal;
        };
        for (const int sequences : {1, many}) {
            const std::string name = std::to_string(count) + " rows behind " + std::to_string(accepted) + " of " +
                                     std::to_string(sequences) + " sequences";
            const Outcome together = run(sequences, 0, all, true), verified = run(sequences, accepted, count, false),
                          replayed = run(sequences, all, 0, false);
            report.expect(same(together.outputs, singly.outputs) && same(together.states, singly.states),
                          "gdn decode: %s together differ from single steps", name.c_str());
            report.expect(same(verified.outputs, singly.outputs, std::size_t(accepted) * layer.valueDim()),
                          "gdn decode: %s differ from single steps in a verify", name.c_str());
            report.expect(same(verified.states, afterAccepted.states),
                          "gdn decode: a verify of %s does not store the state behind the accepted", name.c_str());
            report.expect(same(replayed.states, singly.states), "gdn decode: replaying %s differs from single steps",
                          name.c_str());
        }
    }
}

void checkGdnDecode(Report& report)
{
    checkConv(report);
    checkGdnInput(report);
    checkProjectedRows(report);

    Random random(3);
    for (const auto& [keyHeads, valueHeads] : {std::pair{1, 1}, {2, 4}, {2, 6}}) {
        const Parameters parameters(random, valueHeads);
        const GdnLayer layer = parameters.onHost(keyHeads), deviceLayer = parameters.onDevice(keyHeads);

        // Three sequences: one row final, a verify of 8 rows after 3 accepted ones, replay alone.
        const int rows[] = {1, 8, 0}, pending[] = {0, 3, 2}, store[] = {1, 0, 0};
        std::vector<GdnSequence> sequences;
        std::vector<Rows> newRows, pendingRows;
        std::vector<DeviceArray<float>> states;
        std::vector<DeviceArray<__nv_bfloat16>> outputs;
        std::vector<std::vector<double>> wantStates, wantOutputs;
        for (int i = 0; i < 3; ++i) {
            newRows.emplace_back(random, layer, rows[i]);
            pendingRows.emplace_back(random, layer, pending[i]);
            std::vector<float> state(std::size_t(valueHeads) * 128 * 128);
            for (float& value : state)
                value = float(random.normal() * 0.3);
            states.emplace_back(state);
            outputs.emplace_back(std::size_t(rows[i]) * layer.valueDim());
            const Rows& n = newRows.back();
            const Rows& p = pendingRows.back();
            sequences.push_back({states.back().data(), p.qkvDevice.data(), p.betaDevice.data(), p.decayDevice.data(),
                                 n.qkvDevice.data(), n.betaDevice.data(), n.decayDevice.data(), n.gateDevice.data(),
                                 outputs.back().data(), pending[i], rows[i], store[i], layer.valueDim()});

            std::vector<double> want(state.begin(), state.end()), ignored(std::size_t(8) * layer.valueDim());
            referenceGdnDecode(want.data(), p.qkv.data(), p.beta.data(), p.decay.data(), p.gate.data(), pending[i],
                               layer, ignored.data());
            std::vector<double> after = want, output(std::size_t(rows[i]) * layer.valueDim());
            referenceGdnDecode(after.data(), n.qkv.data(), n.beta.data(), n.decay.data(), n.gate.data(), rows[i], layer,
                               output.data());
            wantStates.push_back(store[i] > 0 ? after : want);
            wantOutputs.push_back(output);
        }
        const DeviceArray<GdnSequence> sequencesDevice(sequences);
        OCTAVO_REQUIRE(launchGdnDecode(sequencesDevice.data(), 3, deviceLayer, nullptr));
        for (int i = 0; i < 3; ++i) {
            const std::string name =
                "gdn decode heads=" + std::to_string(valueHeads) + " rows=" + std::to_string(rows[i]);
            compare(report, name + " state", states[i].download(), wantStates[i], 2e-6);
            compare(report, name, toFloat(outputs[i].download()), wantOutputs[i], 6e-3); // two roundings to bf16
        }
    }
    checkGdnRowsTogether(report);
    checkGdnKeep(report);
    GdnLayer odd{2, 3, nullptr, nullptr, nullptr, 1e-6f};
    report.expect(launchGdnDecode(nullptr, 1, odd, nullptr) == cudaErrorInvalidValue,
                  "gdn takes heads that don't divide");
}

} // namespace octavo::gpu
