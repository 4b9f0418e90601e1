#include "ui/stage_text.h"

#include <QCoreApplication>

namespace octavo::ui {

namespace {

/// Where translators find the words of this file.
struct StageWords {
    Q_DECLARE_TR_FUNCTIONS(octavo::ui::StageWords)
};

} // namespace

QString stageText(const QString& stage)
{
    const std::pair<const char*, QString> known[] = {
        {"Listing files", StageWords::tr("Listing files")},
        {"Counting tokens", StageWords::tr("Counting tokens")},
        {"Receiving objects", StageWords::tr("Receiving objects")},
        {"Resolving deltas", StageWords::tr("Resolving deltas")},
        {"Writing files", StageWords::tr("Writing files")},
        {"Reading the configuration", StageWords::tr("Reading the configuration")},
        {"Opening the weights", StageWords::tr("Opening the weights")},
        {"Ready", StageWords::tr("Ready")},
    };
    for (const auto& [english, words] : known) {
        if (stage == QLatin1String(english))
            return words;
    }
    const std::pair<QLatin1String, QString> ofDevice[] = {
        {QLatin1String("Preparing "), StageWords::tr("Preparing %1")},
        {QLatin1String("Quantising the weights for "), StageWords::tr("Quantising the weights for %1")},
    };
    for (const auto& [english, words] : ofDevice) {
        if (stage.startsWith(english))
            return words.arg(stage.mid(english.size()));
    }
    return stage;
}

} // namespace octavo::ui
