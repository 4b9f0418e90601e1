<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="de_DE">
<context>
    <name>octavo::ui::AddRepositoryDialog</name>
    <message>
        <source>Steps</source>
        <translation>Schritte</translation>
    </message>
    <message>
        <source>Step %1 of %2: %3</source>
        <translation>Schritt %1 von %2: %3</translation>
    </message>
    <message>
        <source>Add repository</source>
        <translation>Repository hinzufügen</translation>
    </message>
    <message>
        <source>Source</source>
        <translation>Quelle</translation>
    </message>
    <message>
        <source>Files and budget</source>
        <translation>Dateien und Budget</translation>
    </message>
    <message>
        <source>Read</source>
        <translation>Lesen</translation>
    </message>
    <message>
        <source>Panes</source>
        <translation>Felder</translation>
    </message>
    <message>
        <source>Back</source>
        <translation>Zurück</translation>
    </message>
    <message>
        <source>Cancel</source>
        <translation>Abbrechen</translation>
    </message>
    <message>
        <source>Next</source>
        <translation>Weiter</translation>
    </message>
    <message>
        <source>changed</source>
        <translation>geändert</translation>
    </message>
    <message>
        <source>added</source>
        <translation>neu</translation>
    </message>
    <message>
        <source>removed</source>
        <translation>entfernt</translation>
    </message>
    <message>
        <source>The same files and contents as in the context before.</source>
        <translation>Dieselben Dateien und Inhalte wie im vorigen Kontext.</translation>
    </message>
    <message>
        <source>Against the context before: %1 changed, %2 added, %3 removed · %4 of %5 tokens are read already.</source>
        <translation>Gegenüber dem vorigen Kontext: %1 geändert, %2 neu, %3 entfernt · %4 von %5 Tokens sind schon gelesen.</translation>
    </message>
    <message>
        <source>Close</source>
        <translation>Schließen</translation>
    </message>
    <message>
        <source>Read %1 tokens</source>
        <translation>%1 Tokens lesen</translation>
    </message>
    <message>
        <source>Counting…</source>
        <translation>Wird gezählt…</translation>
    </message>
    <message>
        <source>Choose panes</source>
        <translation>Felder wählen</translation>
    </message>
    <message>
        <source>Finish</source>
        <translation>Fertig</translation>
    </message>
    <message numerus="yes">
        <source>Give it to %n panes</source>
        <translation>
            <numerusform>An %n Feld geben</numerusform>
            <numerusform>An %n Felder geben</numerusform>
        </translation>
    </message>
    <message>
        <source>no context yet</source>
        <translation>noch kein Kontext</translation>
    </message>
    <message>
        <source>%1 @ %2</source>
        <translation>%1 @ %2</translation>
    </message>
</context>
<context>
    <name>octavo::ui::CodeView</name>
    <message>
        <source>Source</source>
        <translation>Quelle</translation>
    </message>
</context>
<context>
    <name>octavo::ui::CommandPalette</name>
    <message>
        <source>Commands</source>
        <translation>Befehle</translation>
    </message>
    <message>
        <source>What do you want to do?</source>
        <translation>Was möchten Sie tun?</translation>
    </message>
    <message>
        <source>Command</source>
        <translation>Befehl</translation>
    </message>
    <message>
        <source>Matching commands</source>
        <translation>Passende Befehle</translation>
    </message>
    <message>
        <source>No command has these letters.</source>
        <translation>Kein Befehl hat diese Buchstaben.</translation>
    </message>
    <message>
        <source>Close (Esc)</source>
        <translation>Schließen (Esc)</translation>
    </message>
</context>
<context>
    <name>octavo::ui::CompareView</name>
    <message>
        <source>Answers to</source>
        <translation>Antworten auf</translation>
    </message>
    <message>
        <source>Question to compare</source>
        <translation>Zu vergleichende Frage</translation>
    </message>
    <message>
        <source>Back to the panes</source>
        <translation>Zurück zu den Feldern</translation>
    </message>
    <message>
        <source>Answer of %1</source>
        <translation>Antwort von %1</translation>
    </message>
    <message>
        <source>Nothing to compare yet: ask all agents one question.</source>
        <translation>Noch nichts zu vergleichen: Stellen Sie allen Agenten eine Frage.</translation>
    </message>
</context>
<context>
    <name>octavo::ui::Composer</name>
    <message>
        <source>Question for %1</source>
        <translation>Frage an %1</translation>
    </message>
    <message>
        <source>Stop</source>
        <translation>Anhalten</translation>
    </message>
    <message>
        <source>Stop this answer (Esc)</source>
        <translation>Diese Antwort anhalten (Esc)</translation>
    </message>
    <message>
        <source>Send (Enter)</source>
        <translation>Senden (Eingabe)</translation>
    </message>
    <message>
        <source>Send</source>
        <translation>Senden</translation>
    </message>
</context>
<context>
    <name>octavo::ui::ContextModel</name>
    <message>
        <source>failed</source>
        <translation>fehlgeschlagen</translation>
    </message>
    <message>
        <source>%1 of %2 files</source>
        <translation>%1 von %2 Dateien</translation>
    </message>
    <message>
        <source>%1 tokens</source>
        <translation>%1 Token</translation>
    </message>
    <message>
        <source>reading %1%</source>
        <translation>liest %1%</translation>
    </message>
    <message>
        <source>reading</source>
        <translation>liest</translation>
    </message>
    <message>
        <source>preparing</source>
        <translation>wird vorbereitet</translation>
    </message>
    <message numerus="yes">
        <source>%n panes</source>
        <translation>
            <numerusform>%n Feld</numerusform>
            <numerusform>%n Felder</numerusform>
        </translation>
    </message>
    <message>
        <source>read</source>
        <translation>gelesen</translation>
    </message>
    <message>
        <source>new commit</source>
        <translation>neuer Commit</translation>
    </message>
    <message numerus="yes">
        <source>%Ln files packed, %1 left out</source>
        <translation>
            <numerusform>%Ln Datei gepackt, %1 ausgelassen</numerusform>
            <numerusform>%Ln Dateien gepackt, %1 ausgelassen</numerusform>
        </translation>
    </message>
    <message>
        <source>stopped at %1%</source>
        <translation>angehalten bei %1 %</translation>
    </message>
</context>
<context>
    <name>octavo::ui::DashboardPanel</name>
    <message>
        <source>Dashboard</source>
        <translation>Übersicht</translation>
    </message>
    <message>
        <source>No device yet. Figures appear once a model is loaded.</source>
        <translation>Noch kein Gerät. Zahlen erscheinen, sobald ein Modell geladen ist.</translation>
    </message>
    <message>
        <source>Save the dashboard</source>
        <translation>Anzeige speichern</translation>
    </message>
    <message>
        <source>Comma-separated values (*.csv)</source>
        <translation>Kommagetrennte Werte (*.csv)</translation>
    </message>
    <message>
        <source>PNG image (*.png)</source>
        <translation>PNG-Bild (*.png)</translation>
    </message>
</context>
<context>
    <name>octavo::ui::DeviceCard</name>
    <message>
        <source>%1 GB/s</source>
        <translation>%1 GB/s</translation>
    </message>
    <message>
        <source>%1 MB/s</source>
        <translation>%1 MB/s</translation>
    </message>
    <message>
        <source>%1%</source>
        <translation>%1 %</translation>
    </message>
    <message>
        <source>%1 / %2 GiB</source>
        <translation>%1 / %2 GiB</translation>
    </message>
    <message>
        <source>Host tier</source>
        <translation>RAM-Stufe</translation>
    </message>
    <message>
        <source>Tier read</source>
        <translation>Aus der Stufe</translation>
    </message>
    <message>
        <source>Hot-buffer hits</source>
        <translation>Treffer im Puffer</translation>
    </message>
    <message>
        <source>GPU %1</source>
        <translation>GPU %1</translation>
    </message>
    <message>
        <source>%1 °C</source>
        <translation>%1 °C</translation>
    </message>
    <message>
        <source>%1 W</source>
        <translation>%1 W</translation>
    </message>
    <message>
        <source>VRAM</source>
        <translation>VRAM</translation>
    </message>
    <message>
        <source>RAM</source>
        <translation>RAM</translation>
    </message>
    <message>
        <source>Weights</source>
        <translation>Gewichte</translation>
    </message>
    <message>
        <source>Sequences, sketch and state</source>
        <translation>Sequenzen, Skizze und Zustand</translation>
    </message>
    <message>
        <source>In use</source>
        <translation>Belegt</translation>
    </message>
    <message>
        <source>Hot buffer</source>
        <translation>Heißer Puffer</translation>
    </message>
    <message>
        <source>KV rows</source>
        <translation>KV-Zeilen</translation>
    </message>
    <message>
        <source>PCIe read</source>
        <translation>Über PCIe</translation>
    </message>
</context>
<context>
    <name>octavo::ui::FileTreeModel</name>
    <message>
        <source>%1 is left out by the patterns above</source>
        <translation>%1 lassen die Muster oben aus</translation>
    </message>
    <message>
        <source>%1, %2 tokens</source>
        <translation>%1, %2 Tokens</translation>
    </message>
    <message>
        <source>%1, %2 files, %3 tokens</source>
        <translation>%1, %2 Dateien, %3 Tokens</translation>
    </message>
    <message>
        <source>Files</source>
        <translation>Dateien</translation>
    </message>
    <message>
        <source>Tokens</source>
        <translation>Tokens</translation>
    </message>
    <message numerus="yes">
        <source>%Ln files</source>
        <translation>
            <numerusform>%Ln Datei</numerusform>
            <numerusform>%Ln Dateien</numerusform>
        </translation>
    </message>
</context>
<context>
    <name>octavo::ui::FileTreeView</name>
    <message>
        <source>Files</source>
        <translation>Dateien</translation>
    </message>
</context>
<context>
    <name>octavo::ui::FilesPage</name>
    <message>
        <source>%1 patterns</source>
        <translation>Muster: %1</translation>
    </message>
    <message>
        <source>By name</source>
        <translation>Nach Name</translation>
    </message>
    <message>
        <source>Largest first</source>
        <translation>Größte zuerst</translation>
    </message>
    <message>
        <source>Files</source>
        <translation>Dateien</translation>
    </message>
    <message>
        <source>Left out</source>
        <translation>Ausgelassen</translation>
    </message>
    <message>
        <source>Changed</source>
        <translation>Geändert</translation>
    </message>
    <message>
        <source>Progress</source>
        <translation>Fortschritt</translation>
    </message>
    <message>
        <source>Try again</source>
        <translation>Noch einmal</translation>
    </message>
    <message>
        <source>include</source>
        <translation>mit</translation>
    </message>
    <message>
        <source>everything</source>
        <translation>alles</translation>
    </message>
    <message>
        <source>exclude</source>
        <translation>ohne</translation>
    </message>
    <message>
        <source>nothing</source>
        <translation>nichts</translation>
    </message>
    <message>
        <source>An answer with its question is taken to need %1 tokens</source>
        <translation>Für eine Antwort mit ihrer Frage werden %1 Tokens gerechnet</translation>
    </message>
    <message>
        <source>%1 tokens</source>
        <translation>%1 Token</translation>
    </message>
    <message>
        <source>Token budget</source>
        <translation>Token-Budget</translation>
    </message>
    <message>
        <source>Choose what fits</source>
        <translation>Wählen, was passt</translation>
    </message>
    <message>
        <source>Keep README and sources, leave out tests, then what is vendored or generated</source>
        <translation>README und Quellen bleiben; Tests, dann Fremdes und Erzeugtes werden ausgelassen</translation>
    </message>
    <message>
        <source>tokens, counted by %1</source>
        <translation>Tokens, gezählt von %1</translation>
    </message>
    <message>
        <source>Changed %1</source>
        <translation>Geändert %1</translation>
    </message>
    <message>
        <source>Files that changed</source>
        <translation>Geänderte Dateien</translation>
    </message>
    <message>
        <source>Files left out</source>
        <translation>Ausgelassene Dateien</translation>
    </message>
    <message>
        <source>Reading goes on from the first file that differs; what comes before it is used as it is.</source>
        <translation>Gelesen wird ab der ersten Datei, die anders ist; was davor steht, wird weiter benutzt.</translation>
    </message>
    <message>
        <source>Every file is either packed, unchecked or listed here with a reason.</source>
        <translation>Jede Datei ist gepackt, abgewählt oder steht hier mit einem Grund.</translation>
    </message>
    <message>
        <source>Looking at %1</source>
        <translation>%1 wird angesehen</translation>
    </message>
    <message>
        <source>%1: %2</source>
        <translation>%1: %2</translation>
    </message>
    <message>
        <source>%1 of %2</source>
        <translation>%1 von %2</translation>
    </message>
    <message>
        <source>%1 left</source>
        <translation>noch %1</translation>
    </message>
    <message>
        <source>“%1”</source>
        <translation>„%1“</translation>
    </message>
    <message>
        <source>Nothing is counted yet.</source>
        <translation>Noch ist nichts gezählt.</translation>
    </message>
    <message>
        <source>The patterns are being applied.</source>
        <translation>Die Muster werden angewendet.</translation>
    </message>
    <message>
        <source>No file is chosen.</source>
        <translation>Keine Datei ist gewählt.</translation>
    </message>
    <message>
        <source>Too much by %1 tokens: leave files out, or let Octavo choose.</source>
        <translation>%1 Tokens zu viel: Dateien abwählen oder Octavo wählen lassen.</translation>
    </message>
    <message numerus="yes">
        <source>of %1 tokens · room for about %Ln answers</source>
        <translation>
            <numerusform>von %1 Tokens · Platz für etwa %Ln Antwort</numerusform>
            <numerusform>von %1 Tokens · Platz für etwa %Ln Antworten</numerusform>
        </translation>
    </message>
    <message>
        <source>All else</source>
        <translation>Alles andere</translation>
    </message>
    <message>
        <source>%1 of %2 · packed %3 · unchecked %4</source>
        <translation>%1 von %2 · gepackt %3 · abgewählt %4</translation>
    </message>
    <message numerus="yes">
        <source>Special-token text found in %Ln files is read as plain text.</source>
        <translation>
            <numerusform>Text von Sondertokens in %Ln Datei wird als einfacher Text gelesen.</numerusform>
            <numerusform>Text von Sondertokens in %Ln Dateien wird als einfacher Text gelesen.</numerusform>
        </translation>
    </message>
    <message>
        <source>Map</source>
        <translation>Karte</translation>
    </message>
    <message>
        <source>Space or Ctrl+click: read or not · Enter: this folder alone · Backspace: back</source>
        <translation>Leertaste oder Strg+Klick: lesen oder nicht · Eingabe: nur dieser Ordner · Rücktaste: zurück</translation>
    </message>
</context>
<context>
    <name>octavo::ui::FindBar</name>
    <message>
        <source>Find in this transcript</source>
        <translation>In diesem Verlauf suchen</translation>
    </message>
    <message>
        <source>Previous match (Shift+Enter)</source>
        <translation>Vorige Fundstelle (Umschalt+Eingabe)</translation>
    </message>
    <message>
        <source>Next match (Enter)</source>
        <translation>Nächste Fundstelle (Eingabe)</translation>
    </message>
    <message>
        <source>Close (Esc)</source>
        <translation>Schließen (Esc)</translation>
    </message>
    <message>
        <source>nothing found</source>
        <translation>nichts gefunden</translation>
    </message>
    <message>
        <source>%1 of %2</source>
        <translation>%1 von %2</translation>
    </message>
</context>
<context>
    <name>octavo::ui::HeaderBar</name>
    <message>
        <source>+ Add repository</source>
        <translation>+ Repository hinzufügen</translation>
    </message>
    <message>
        <source>Compare</source>
        <translation>Vergleichen</translation>
    </message>
    <message>
        <source>Settings</source>
        <translation>Einstellungen</translation>
    </message>
    <message>
        <source>Main menu</source>
        <translation>Hauptmenü</translation>
    </message>
    <message>
        <source>Ask all eight agents…</source>
        <translation>Alle acht Agenten fragen …</translation>
    </message>
    <message>
        <source>Ask all eight agents</source>
        <translation>Alle acht Agenten fragen</translation>
    </message>
    <message>
        <source>Grid</source>
        <translation>Raster</translation>
    </message>
    <message>
        <source>How many panes to show</source>
        <translation>Wie viele Felder zu sehen sind</translation>
    </message>
    <message>
        <source>The panes' answers side by side</source>
        <translation>Die Antworten der Felder nebeneinander</translation>
    </message>
</context>
<context>
    <name>octavo::ui::HistoryModel</name>
    <message>
        <source>now</source>
        <translation>jetzt</translation>
    </message>
    <message>
        <source>%1 min</source>
        <translation>%1 min</translation>
    </message>
    <message>
        <source>%1 h</source>
        <translation>%1 h</translation>
    </message>
    <message>
        <source>yesterday</source>
        <translation>gestern</translation>
    </message>
    <message>
        <source>Untitled</source>
        <translation>Ohne Titel</translation>
    </message>
    <message numerus="yes">
        <source>%n messages</source>
        <translation>
            <numerusform>%n Nachricht</numerusform>
            <numerusform>%n Nachrichten</numerusform>
        </translation>
    </message>
</context>
<context>
    <name>octavo::ui::LeftOutModel</name>
    <message>
        <source>%1: %2</source>
        <translation>%1: %2</translation>
    </message>
</context>
<context>
    <name>octavo::ui::LineChart</name>
    <message>
        <source>%1 s ago</source>
        <translation>vor %1 s</translation>
    </message>
</context>
<context>
    <name>octavo::ui::MainWindow</name>
    <message>
        <source>Contexts and history</source>
        <translation>Kontexte und Verlauf</translation>
    </message>
    <message>
        <source>Dashboard</source>
        <translation>Übersicht</translation>
    </message>
    <message>
        <source>Not saved: %1</source>
        <translation>Nicht gespeichert: %1</translation>
    </message>
    <message>
        <source>%1
%2 parameters · %3 tokens of context per agent</source>
        <translation>%1
%2 Parameter · %3 Token Kontext je Agent</translation>
    </message>
    <message>
        <source>This pane is busy: stop it first, or choose another.</source>
        <translation>Dieses Feld arbeitet: Halten Sie es erst an, oder wählen Sie ein anderes.</translation>
    </message>
    <message>
        <source>“%1” deleted</source>
        <translation>„%1“ gelöscht</translation>
    </message>
    <message>
        <source>Undo</source>
        <translation>Rückgängig</translation>
    </message>
    <message>
        <source>No pane has a context yet: add a repository first.</source>
        <translation>Noch hat kein Feld einen Kontext: Fügen Sie erst ein Repository hinzu.</translation>
    </message>
    <message>
        <source>No pane is free: wait for an answer or stop one.</source>
        <translation>Kein Feld ist frei: Warten Sie auf eine Antwort, oder halten Sie eine an.</translation>
    </message>
    <message numerus="yes">
        <source>Sent to %n panes</source>
        <translation>
            <numerusform>An %n Feld gesendet</numerusform>
            <numerusform>An %n Felder gesendet</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n panes are busy and keep their context.</source>
        <translation>
            <numerusform>%n Feld ist beschäftigt und behält seinen Kontext.</numerusform>
            <numerusform>%n Felder sind beschäftigt und behalten ihren Kontext.</numerusform>
        </translation>
    </message>
    <message>
        <source>Remove %1? Conversations about it stay in the history.</source>
        <translation>%1 entfernen? Gespräche darüber bleiben im Verlauf.</translation>
    </message>
    <message>
        <source>Remove</source>
        <translation>Entfernen</translation>
    </message>
    <message>
        <source>There is no conversation to export in this pane.</source>
        <translation>In diesem Feld gibt es kein Gespräch zum Exportieren.</translation>
    </message>
    <message>
        <source>Export conversation</source>
        <translation>Gespräch exportieren</translation>
    </message>
    <message>
        <source>Markdown (*.md)</source>
        <translation>Markdown (*.md)</translation>
    </message>
    <message>
        <source>JSON (*.json)</source>
        <translation>JSON (*.json)</translation>
    </message>
    <message>
        <source>Exported to %1</source>
        <translation>Exportiert nach %1</translation>
    </message>
    <message>
        <source>Add repository…</source>
        <translation>Repository hinzufügen …</translation>
    </message>
    <message>
        <source>Ask all agents</source>
        <translation>Alle Agenten fragen</translation>
    </message>
    <message>
        <source>Stop all</source>
        <translation>Alle anhalten</translation>
    </message>
    <message>
        <source>New conversation</source>
        <translation>Neues Gespräch</translation>
    </message>
    <message>
        <source>Continue the answer</source>
        <translation>Antwort fortsetzen</translation>
    </message>
    <message>
        <source>Regenerate</source>
        <translation>Neu erzeugen</translation>
    </message>
    <message>
        <source>Edit last question</source>
        <translation>Letzte Frage ändern</translation>
    </message>
    <message>
        <source>Copy answer as Markdown</source>
        <translation>Antwort als Markdown kopieren</translation>
    </message>
    <message>
        <source>Find in transcript</source>
        <translation>Im Verlauf suchen</translation>
    </message>
    <message>
        <source>Rename pane</source>
        <translation>Feld umbenennen</translation>
    </message>
    <message>
        <source>Export conversation…</source>
        <translation>Gespräch exportieren …</translation>
    </message>
    <message>
        <source>Search the history</source>
        <translation>Verlauf durchsuchen</translation>
    </message>
    <message>
        <source>Zoom the pane, and back</source>
        <translation>Feld vergrößern und zurück</translation>
    </message>
    <message>
        <source>Next pane</source>
        <translation>Nächstes Feld</translation>
    </message>
    <message>
        <source>Previous pane</source>
        <translation>Voriges Feld</translation>
    </message>
    <message>
        <source>Move pane forward</source>
        <translation>Feld nach hinten schieben</translation>
    </message>
    <message>
        <source>Move pane back</source>
        <translation>Feld nach vorn schieben</translation>
    </message>
    <message>
        <source>Next grid</source>
        <translation>Nächstes Raster</translation>
    </message>
    <message>
        <source>Compare answers</source>
        <translation>Antworten vergleichen</translation>
    </message>
    <message>
        <source>Show or hide the dashboard</source>
        <translation>Übersicht ein- oder ausblenden</translation>
    </message>
    <message>
        <source>Float or dock the dashboard</source>
        <translation>Übersicht lösen oder andocken</translation>
    </message>
    <message>
        <source>Show or hide the contexts</source>
        <translation>Kontexte ein- oder ausblenden</translation>
    </message>
    <message>
        <source>Commands…</source>
        <translation>Befehle …</translation>
    </message>
    <message>
        <source>Settings</source>
        <translation>Einstellungen</translation>
    </message>
    <message>
        <source>Quit</source>
        <translation>Beenden</translation>
    </message>
    <message>
        <source>Go to pane %1</source>
        <translation>Zu Feld %1</translation>
    </message>
    <message>
        <source>No pane has a context: choose one in a pane's header, or use one in all panes.</source>
        <translation>Kein Feld hat einen Kontext: Wählen Sie einen im Kopf eines Feldes, oder nehmen Sie einen für alle Felder.</translation>
    </message>
    <message>
        <source>Sent to no pane</source>
        <translation>An kein Feld gesendet</translation>
    </message>
    <message numerus="yes">
        <source>%n panes are busy.</source>
        <translation>
            <numerusform>%n Feld arbeitet.</numerusform>
            <numerusform>%n Felder arbeiten.</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n more refused it.</source>
        <translation>
            <numerusform>%n weiteres hat sie abgelehnt.</numerusform>
            <numerusform>%n weitere haben sie abgelehnt.</numerusform>
        </translation>
    </message>
    <message>
        <source>No conversation was deleted since the start.</source>
        <translation>Seit dem Start wurde keine Unterhaltung gelöscht.</translation>
    </message>
    <message>
        <source>Bring back the deleted conversation</source>
        <translation>Gelöschte Unterhaltung zurückholen</translation>
    </message>
    <message>
        <source>Trust for Octavo only</source>
        <translation>Nur für Octavo vertrauen</translation>
    </message>
    <message>
        <source>Choose files…</source>
        <translation>Dateien wählen…</translation>
    </message>
    <message>
        <source>Agent %1</source>
        <translation>Agent %1</translation>
    </message>
    <message>
        <source>Choose the pane's context</source>
        <translation>Kontext des Feldes wählen</translation>
    </message>
    <message>
        <source>Main menu</source>
        <translation>Hauptmenü</translation>
    </message>
</context>
<context>
    <name>octavo::ui::MemoryPage</name>
    <message>
        <source>What is free</source>
        <translation>Was frei ist</translation>
    </message>
    <message>
        <source>Never</source>
        <translation>Nie</translation>
    </message>
    <message>
        <source>Model&apos;s limit</source>
        <translation>Grenze des Modells</translation>
    </message>
    <message>
        <source>Memory</source>
        <translation>Speicher</translation>
    </message>
    <message>
        <source>Takes effect when Octavo starts next.</source>
        <translation>Gilt ab dem nächsten Start von Octavo.</translation>
    </message>
    <message>
        <source>Tokens per agent</source>
        <translation>Tokens je Agent</translation>
    </message>
    <message>
        <source>In long contexts</source>
        <translation>In langen Kontexten</translation>
    </message>
    <message>
        <source>Wherever it can</source>
        <translation>Wo immer es geht</translation>
    </message>
    <message>
        <source>Sparse attention</source>
        <translation>Sparsame Aufmerksamkeit</translation>
    </message>
    <message>
        <source>Each new token looks at about 2,000 tokens of the context, picked anew for it, instead of all of them. Much faster in long contexts and close to exact. Never: always all of them.</source>
        <translation>Jedes neue Token betrachtet etwa 2.000 eigens ausgewählte Tokens des Kontexts statt aller. In langen Kontexten viel schneller und nahezu exakt. Nie: immer alle.</translation>
    </message>
    <message>
        <source>The longest context together with its conversation. Less leaves more memory to others.</source>
        <translation>Der längste Kontext samt seinem Gespräch. Weniger lässt anderen mehr Speicher.</translation>
    </message>
    <message>
        <source>RAM for contexts</source>
        <translation>RAM für Kontexte</translation>
    </message>
    <message>
        <source>What all contexts may take together. One that does not fit is refused and told what it needs; nothing is pushed out to disk unasked.</source>
        <translation>Was alle Kontexte zusammen belegen dürfen. Einer, der nicht passt, wird abgelehnt, und es heißt, wie viel fehlt; nichts wird ungefragt ausgelagert.</translation>
    </message>
</context>
<context>
    <name>octavo::ui::ModelPage</name>
    <message>
        <source>%1B parameters</source>
        <translation>%1 Mrd. Parameter</translation>
    </message>
    <message>
        <source>%1M parameters</source>
        <translation>%1 Mio. Parameter</translation>
    </message>
    <message>
        <source>Folder of the model</source>
        <translation>Ordner des Modells</translation>
    </message>
    <message>
        <source>The demo model that comes with Octavo</source>
        <translation>Das Demo-Modell, das Octavo mitbringt</translation>
    </message>
    <message>
        <source>Browse…</source>
        <translation>Durchsuchen…</translation>
    </message>
    <message>
        <source>Device</source>
        <translation>Gerät</translation>
    </message>
    <message>
        <source>Automatic: the GPUs that are there, else the CPU</source>
        <translation>Automatisch: vorhandene GPUs, sonst die CPU</translation>
    </message>
    <message>
        <source>%1 · %2 · %3</source>
        <translation>%1 · %2 · %3</translation>
    </message>
    <message>
        <source>Model</source>
        <translation>Modell</translation>
    </message>
    <message>
        <source>Examining…</source>
        <translation>Wird geprüft…</translation>
    </message>
    <message>
        <source>RAM</source>
        <translation>RAM</translation>
    </message>
    <message>
        <source>Memory needed</source>
        <translation>Benötigter Speicher</translation>
    </message>
    <message>
        <source>Model and device</source>
        <translation>Modell und Gerät</translation>
    </message>
    <message>
        <source>Takes effect when Octavo starts next.</source>
        <translation>Gilt ab dem nächsten Start von Octavo.</translation>
    </message>
    <message>
        <source>Choose a model</source>
        <translation>Modell wählen</translation>
    </message>
    <message>
        <source>This model cannot be loaded.</source>
        <translation>Dieses Modell kann nicht geladen werden.</translation>
    </message>
    <message>
        <source>%1 fits: %2 agents of up to %3 tokens each.</source>
        <translation>%1 passt: %2 Agenten mit je bis zu %3 Tokens.</translation>
    </message>
    <message>
        <source>%1 runs, but not with %2 agents of %3 tokens: %4 tokens each would fit.</source>
        <translation>%1 läuft, aber nicht mit %2 Agenten zu %3 Tokens: je %4 Tokens würden passen.</translation>
    </message>
    <message>
        <source>%1 does not fit into the memory that is free.</source>
        <translation>%1 passt nicht in den freien Speicher.</translation>
    </message>
    <message>
        <source>%1 cannot run as it is.</source>
        <translation>%1 kann so nicht laufen.</translation>
    </message>
    <message>
        <source>%1 on disk</source>
        <translation>%1 auf der Platte</translation>
    </message>
    <message>
        <source>%1 of %2 VRAM</source>
        <translation>%1 von %2 VRAM</translation>
    </message>
    <message>
        <source>Weights</source>
        <translation>Gewichte</translation>
    </message>
    <message>
        <source>Contexts, if all are full</source>
        <translation>Kontexte, wenn alle voll sind</translation>
    </message>
    <message>
        <source>%1 of %2 free</source>
        <translation>%1 von %2 frei</translation>
    </message>
    <message numerus="yes">
        <source>%1: %n modules</source>
        <translation>
            <numerusform>%1: %n Modul</numerusform>
            <numerusform>%1: %n Module</numerusform>
        </translation>
    </message>
</context>
<context>
    <name>octavo::ui::NoticeBar</name>
    <message>
        <source>Dismiss</source>
        <translation>Ausblenden</translation>
    </message>
</context>
<context>
    <name>octavo::ui::Pane</name>
    <message>
        <source>Reload the model</source>
        <translation>Modell neu laden</translation>
    </message>
    <message>
        <source>The model is loaded again…</source>
        <translation>Das Modell wird neu geladen …</translation>
    </message>
    <message>
        <source>Add repository…</source>
        <translation>Repository hinzufügen …</translation>
    </message>
    <message>
        <source>Not a web address: %1</source>
        <translation>Keine Webadresse: %1</translation>
    </message>
    <message>
        <source>Transcript of %1</source>
        <translation>Verlauf von %1</translation>
    </message>
    <message>
        <source>Ask…</source>
        <translation>Fragen …</translation>
    </message>
    <message>
        <source>Ask a follow-up…</source>
        <translation>Weiterfragen …</translation>
    </message>
    <message>
        <source>No context yet</source>
        <translation>Noch kein Kontext</translation>
    </message>
    <message>
        <source>Ask about %1</source>
        <translation>Fragen zu %1</translation>
    </message>
    <message>
        <source>Choose one above, or add a repository</source>
        <translation>Wählen Sie oben einen, oder fügen Sie ein Repository hinzu</translation>
    </message>
    <message>
        <source>%1 tokens loaded · Enter to send</source>
        <translation>%1 Token geladen · Eingabe sendet</translation>
    </message>
    <message>
        <source>%1 tokens · Enter to send</source>
        <translation>%1 Token · Eingabe sendet</translation>
    </message>
    <message>
        <source>Editing the last question: Enter replaces it and its answer, Esc leaves it as it is.</source>
        <translation>Letzte Frage wird geändert: Eingabe ersetzt sie und ihre Antwort, Esc lässt sie, wie sie ist.</translation>
    </message>
    <message>
        <source>The context is nearly full: %1 tokens are left. Start a new conversation to go on.</source>
        <translation>Der Kontext ist fast voll: %1 Token sind frei. Beginnen Sie ein neues Gespräch, um weiterzumachen.</translation>
    </message>
    <message>
        <source>%1 tok/s</source>
        <translation>%1 Tok/s</translation>
    </message>
    <message>
        <source>Speed: %1</source>
        <translation>Tempo: %1</translation>
    </message>
    <message>
        <source>hit %1</source>
        <translation>Treffer %1</translation>
    </message>
    <message>
        <source>Rows found in the hot buffer</source>
        <translation>Im schnellen Puffer gefundene Zeilen</translation>
    </message>
    <message>
        <source>Hot buffer hits: %1</source>
        <translation>Treffer im schnellen Puffer: %1</translation>
    </message>
    <message>
        <source>Context used: %1</source>
        <translation>Kontext belegt: %1</translation>
    </message>
    <message>
        <source>%1 of %2 tokens of context used</source>
        <translation>%1 von %2 Token des Kontexts belegt</translation>
    </message>
    <message>
        <source>Answer copied as Markdown</source>
        <translation>Antwort als Markdown kopiert</translation>
    </message>
    <message>
        <source>New conversation</source>
        <translation>Neues Gespräch</translation>
    </message>
    <message>
        <source>Continue the answer</source>
        <translation>Antwort fortsetzen</translation>
    </message>
    <message>
        <source>Regenerate</source>
        <translation>Neu erzeugen</translation>
    </message>
    <message>
        <source>Edit last question</source>
        <translation>Letzte Frage ändern</translation>
    </message>
    <message>
        <source>Copy answer as Markdown</source>
        <translation>Antwort als Markdown kopieren</translation>
    </message>
    <message>
        <source>Find in transcript</source>
        <translation>Im Verlauf suchen</translation>
    </message>
    <message>
        <source>Export conversation…</source>
        <translation>Gespräch exportieren …</translation>
    </message>
    <message>
        <source>Rename pane</source>
        <translation>Feld umbenennen</translation>
    </message>
    <message>
        <source>Back to the grid</source>
        <translation>Zurück zum Raster</translation>
    </message>
    <message>
        <source>Zoom</source>
        <translation>Vergrößern</translation>
    </message>
    <message>
        <source>This pane is busy: stop it first, or choose another.</source>
        <translation>Dieses Feld arbeitet: Halten Sie es erst an, oder wählen Sie ein anderes.</translation>
    </message>
    <message>
        <source>This link leads to %1</source>
        <translation>Dieser Link führt zu %1</translation>
    </message>
    <message>
        <source>Open</source>
        <translation>Öffnen</translation>
    </message>
    <message>
        <source>Ask already: the answer follows.</source>
        <translation>Fragen Sie schon: Die Antwort folgt.</translation>
    </message>
    <message>
        <source>Over the last second</source>
        <translation>Über die letzte Sekunde</translation>
    </message>
    <message>
        <source>Of the last answer</source>
        <translation>Der letzten Antwort</translation>
    </message>
    <message>
        <source>Still answering: Enter sends this once the answer has ended, Esc stops the answer.</source>
        <translation>Es wird noch geantwortet: Enter sendet dies, sobald die Antwort zu Ende ist, Esc hält die Antwort an.</translation>
    </message>
</context>
<context>
    <name>octavo::ui::PaneHeader</name>
    <message>
        <source>Pane menu</source>
        <translation>Menü des Felds</translation>
    </message>
    <message>
        <source>Click to rename</source>
        <translation>Zum Umbenennen klicken</translation>
    </message>
    <message>
        <source>Name of this pane</source>
        <translation>Name dieses Felds</translation>
    </message>
    <message>
        <source>Menu of %1</source>
        <translation>Menü von %1</translation>
    </message>
    <message>
        <source>No context yet: choose one</source>
        <translation>Noch kein Kontext: Wählen Sie einen</translation>
    </message>
    <message>
        <source>%1 tokens in %2 files</source>
        <translation>%1 Token in %2 Dateien</translation>
    </message>
    <message>
        <source>Choose a context</source>
        <translation>Kontext wählen</translation>
    </message>
    <message>
        <source>Context: %1</source>
        <translation>Kontext: %1</translation>
    </message>
    <message>
        <source>choose a context</source>
        <translation>Kontext wählen</translation>
    </message>
    <message>
        <source>State: %1</source>
        <translation>Zustand: %1</translation>
    </message>
    <message>
        <source>Device: %1</source>
        <translation>Gerät: %1</translation>
    </message>
</context>
<context>
    <name>octavo::ui::PaneWords</name>
    <message>
        <source>queued</source>
        <translation>wartet</translation>
    </message>
    <message>
        <source>reading</source>
        <translation>liest</translation>
    </message>
    <message>
        <source>reading %1%</source>
        <translation>liest %1%</translation>
    </message>
    <message>
        <source>writing</source>
        <translation>schreibt</translation>
    </message>
    <message>
        <source>stopping</source>
        <translation>hält an</translation>
    </message>
    <message>
        <source>done</source>
        <translation>fertig</translation>
    </message>
    <message>
        <source>stopped</source>
        <translation>angehalten</translation>
    </message>
    <message>
        <source>failed</source>
        <translation>fehlgeschlagen</translation>
    </message>
    <message>
        <source>idle</source>
        <translation>bereit</translation>
    </message>
    <message>
        <source>no context</source>
        <translation>kein Kontext</translation>
    </message>
    <message>
        <source>%1 of %2 tokens</source>
        <translation>%1 von %2 Token</translation>
    </message>
    <message>
        <source>%1 tok/s</source>
        <translation>%1 Tok/s</translation>
    </message>
    <message>
        <source>%1 left</source>
        <translation>noch %1</translation>
    </message>
    <message>
        <source>preparing</source>
        <translation>wird vorbereitet</translation>
    </message>
    <message>
        <source>resumed at %1%</source>
        <translation>fortgesetzt bei %1 %</translation>
    </message>
</context>
<context>
    <name>octavo::ui::PanesPage</name>
    <message>
        <source>A pane that changes its context starts a new conversation; the old one stays in the history.</source>
        <translation>Ein Feld mit neuem Kontext beginnt ein neues Gespräch; das alte bleibt im Verlauf.</translation>
    </message>
    <message>
        <source>All panes</source>
        <translation>Alle Felder</translation>
    </message>
    <message>
        <source>None</source>
        <translation>Keins</translation>
    </message>
    <message>
        <source>Who asks about %1?</source>
        <translation>Wer fragt zu %1?</translation>
    </message>
    <message>
        <source>%1, now %2</source>
        <translation>%1, jetzt %2</translation>
    </message>
    <message>
        <source>%1 · answering</source>
        <translation>%1 · antwortet</translation>
    </message>
</context>
<context>
    <name>octavo::ui::ProblemWords</name>
    <message>
        <source>the context is full: %1 of %2 tokens are used, this question needs %3 (with a shortest answer): begin a new conversation</source>
        <translation>Der Kontext ist voll: %1 von %2 Token sind belegt, diese Frage braucht %3 (mit einer kürzesten Antwort): Beginnen Sie eine neue Unterhaltung.</translation>
    </message>
    <message>
        <source>the context is full: %1 of %2 tokens are used, this question needs %3 (with a shortest answer): ask less at once or take a smaller context</source>
        <translation>Der Kontext ist voll: %1 von %2 Token sind belegt, diese Frage braucht %3 (mit einer kürzesten Antwort): Fragen Sie weniger auf einmal, oder nehmen Sie einen kleineren Kontext.</translation>
    </message>
    <message>
        <source>%1 is still answering: stop it first</source>
        <translation>%1 antwortet noch: Halten Sie es erst an.</translation>
    </message>
    <message>
        <source>%1 has no context: choose a repository first</source>
        <translation>%1 hat keinen Kontext: Wählen Sie erst ein Repository.</translation>
    </message>
    <message>
        <source>the question is empty</source>
        <translation>Die Frage ist leer.</translation>
    </message>
    <message>
        <source>the last answer did not end early: there is nothing to go on with</source>
        <translation>Die letzte Antwort endete nicht vorzeitig: Es gibt nichts fortzusetzen.</translation>
    </message>
    <message>
        <source>there is no answer yet to be written anew</source>
        <translation>Es gibt noch keine Antwort, die neu geschrieben werden könnte.</translation>
    </message>
    <message>
        <source>there is no question yet to be changed</source>
        <translation>Es gibt noch keine Frage, die geändert werden könnte.</translation>
    </message>
    <message>
        <source>the context was removed</source>
        <translation>Der Kontext wurde entfernt.</translation>
    </message>
    <message>
        <source>reading the context was cancelled</source>
        <translation>Das Lesen des Kontexts wurde abgebrochen.</translation>
    </message>
    <message>
        <source>%1 of commit %2 is no longer in %3: add the repository again</source>
        <translation>%1 des Commits %2 gibt es in %3 nicht mehr: Fügen Sie das Repository neu hinzu.</translation>
    </message>
    <message>
        <source>%1 belongs to %2 and you are %3: trust it for Octavo if you know where it comes from</source>
        <translation>%1 gehört %2, und Sie sind %3: Vertrauen Sie ihm für Octavo, wenn Sie wissen, woher es kommt.</translation>
    </message>
    <message>
        <source>"%1" does not exist: name a folder that holds a git repository</source>
        <translation>„%1“ gibt es nicht: Nennen Sie einen Ordner mit einem Git-Repository.</translation>
    </message>
    <message>
        <source>"%1" has bytes in its name that are not UTF-8, which Octavo cannot open: rename the folder, or name a link to it</source>
        <translation>„%1“ hat Bytes im Namen, die kein UTF-8 sind; das kann Octavo nicht öffnen. Benennen Sie den Ordner um oder nennen Sie eine Verknüpfung darauf.</translation>
    </message>
    <message>
        <source>%1 cannot be read: permission denied</source>
        <translation>%1 kann nicht gelesen werden: Der Zugriff ist verweigert.</translation>
    </message>
    <message>
        <source>%1 is not a git repository, nor is a folder above it</source>
        <translation>%1 ist kein Git-Repository, und kein Ordner darüber ist eines.</translation>
    </message>
    <message>
        <source>%1 cannot be opened as a git repository: %2</source>
        <translation>%1 lässt sich nicht als Git-Repository öffnen: %2</translation>
    </message>
    <message>
        <source>%1 has no commits yet</source>
        <translation>%1 hat noch keine Commits.</translation>
    </message>
    <message>
        <source>%1 has no branch, tag or commit "%2"</source>
        <translation>%1 hat keinen Branch, kein Tag und keinen Commit „%2“.</translation>
    </message>
    <message>
        <source>%1 could not be cloned: %2</source>
        <translation>%1 konnte nicht geklont werden: %2</translation>
    </message>
    <message>
        <source>%1 exists already and is not empty</source>
        <translation>%1 gibt es schon, und der Ordner ist nicht leer.</translation>
    </message>
    <message>
        <source>This is a shallow clone: its files can be read, its history ends early.</source>
        <translation>Ein flacher Klon: Seine Dateien können gelesen werden, seine Geschichte endet früh.</translation>
    </message>
    <message>
        <source>%1 is not in this context</source>
        <translation>%1 ist nicht in diesem Kontext.</translation>
    </message>
    <message>
        <source>the disk is full, %1 cannot grow: free some room</source>
        <translation>Der Datenträger ist voll, %1 kann nicht wachsen: Schaffen Sie Platz.</translation>
    </message>
    <message>
        <source>%1 cannot be written: the disk reports a fault or is full</source>
        <translation>%1 kann nicht geschrieben werden: Der Datenträger meldet einen Fehler oder ist voll.</translation>
    </message>
    <message>
        <source>%1 may not be written: check its permissions</source>
        <translation>%1 darf nicht geschrieben werden: Prüfen Sie die Zugriffsrechte.</translation>
    </message>
    <message>
        <source>%1 cannot be opened: check folder and permissions</source>
        <translation>%1 lässt sich nicht öffnen: Prüfen Sie Ordner und Zugriffsrechte.</translation>
    </message>
    <message>
        <source>another program holds %1</source>
        <translation>Ein anderes Programm hält %1 fest.</translation>
    </message>
    <message>
        <source>%1 is damaged: move it away and Octavo begins a new one</source>
        <translation>%1 ist beschädigt: Legen Sie die Datei beiseite, und Octavo beginnt eine neue.</translation>
    </message>
    <message>
        <source>over the budget of %1 tokens</source>
        <translation>über dem Budget von %1 Token</translation>
    </message>
    <message>
        <source>binary</source>
        <translation>binär</translation>
    </message>
    <message>
        <source>left out by you</source>
        <translation>von Ihnen weggelassen</translation>
    </message>
    <message>
        <source>excluded by "%1"</source>
        <translation>ausgeschlossen durch „%1“</translation>
    </message>
    <message>
        <source>link to %1</source>
        <translation>Verweis auf %1</translation>
    </message>
    <message>
        <source>submodule, not fetched (at %1)</source>
        <translation>Submodul, nicht geholt (bei %1)</translation>
    </message>
    <message>
        <source>larger than %1 (%2)</source>
        <translation>größer als %1 (%2)</translation>
    </message>
    <message>
        <source>content not in this clone</source>
        <translation>Inhalt nicht in diesem Klon</translation>
    </message>
    <message>
        <source>Git LFS pointer, content not fetched (%1)</source>
        <translation>Git-LFS-Zeiger, Inhalt nicht geholt (%1)</translation>
    </message>
    <message>
        <source>minified or generated (a line of %1)</source>
        <translation>minifiziert oder erzeugt (eine Zeile von %1)</translation>
    </message>
    <message>
        <source>encoding not known (looks like UTF-16)</source>
        <translation>Kodierung unbekannt (sieht nach UTF-16 aus)</translation>
    </message>
    <message>
        <source>encoding not known (byte 0x%1 at %2 is not UTF-8)</source>
        <translation>Kodierung unbekannt (Byte 0x%1 bei %2 ist kein UTF-8)</translation>
    </message>
    <message>
        <source>A file cannot be read</source>
        <translation>Eine Datei kann nicht gelesen werden</translation>
    </message>
    <message>
        <source>A file cannot be written</source>
        <translation>Eine Datei kann nicht geschrieben werden</translation>
    </message>
    <message>
        <source>A file is damaged or of another format</source>
        <translation>Eine Datei ist beschädigt oder von anderem Format</translation>
    </message>
    <message>
        <source>The model's tensors do not fit together</source>
        <translation>Die Tensoren des Modells passen nicht zusammen</translation>
    </message>
    <message>
        <source>Not supported</source>
        <translation>Nicht unterstützt</translation>
    </message>
    <message>
        <source>Not enough memory</source>
        <translation>Nicht genug Speicher</translation>
    </message>
    <message>
        <source>Not enough device memory</source>
        <translation>Nicht genug Gerätespeicher</translation>
    </message>
    <message>
        <source>The device stopped working</source>
        <translation>Das Gerät arbeitet nicht mehr</translation>
    </message>
    <message>
        <source>The context is full</source>
        <translation>Der Kontext ist voll</translation>
    </message>
    <message>
        <source>Too much at once</source>
        <translation>Zu viel auf einmal</translation>
    </message>
    <message>
        <source>Not found</source>
        <translation>Nicht gefunden</translation>
    </message>
    <message>
        <source>Not a readable git repository</source>
        <translation>Kein lesbares Git-Repository</translation>
    </message>
    <message>
        <source>The session store failed</source>
        <translation>Der Sitzungsspeicher ist ausgefallen</translation>
    </message>
    <message>
        <source>A value is out of range</source>
        <translation>Ein Wert liegt außerhalb des Bereichs</translation>
    </message>
    <message>
        <source>Cancelled</source>
        <translation>Abgebrochen</translation>
    </message>
    <message>
        <source>%1 stopped working: %2</source>
        <translation>%1 arbeitet nicht mehr: %2</translation>
    </message>
    <message>
        <source>%1 cannot be loaded again; start Octavo again</source>
        <translation>%1 kann nicht noch einmal geladen werden; starten Sie Octavo neu.</translation>
    </message>
    <message>
        <source>%1 holds another model by now; start Octavo again</source>
        <translation>%1 enthält inzwischen ein anderes Modell; starten Sie Octavo neu.</translation>
    </message>
    <message>
        <source>no device works any more; reload the model</source>
        <translation>Kein Gerät arbeitet mehr; laden Sie das Modell neu.</translation>
    </message>
    <message>
        <source>%1 has %2 requests waiting already; try again when one has ended</source>
        <translation>Bei %1 warten schon %2 Anfragen; versuchen Sie es wieder, wenn eine beendet ist.</translation>
    </message>
    <message>
        <source>a context of %1 tokens does not fit: used %2, limit %3, needed %4; close other agents' contexts or ask about fewer files</source>
        <translation>Ein Kontext von %1 Token passt nicht: belegt %2, Grenze %3, gebraucht %4; schließen Sie Kontexte anderer Agenten oder fragen Sie zu weniger Dateien.</translation>
    </message>
    <message>
        <source>the context is full: used %1 tokens, limit %2, needed %3; shorten it by %4 tokens or start anew</source>
        <translation>Der Kontext ist voll: belegt %1 Token, Grenze %2, gebraucht %3; kürzen Sie ihn um %4 Token oder beginnen Sie neu.</translation>
    </message>
    <message>
        <source>no memory for the rows of %1 tokens: %2 MiB are needed; close an agent or take a smaller context</source>
        <translation>Kein Speicher für die Zeilen von %1 Token: %2 MiB werden gebraucht; schließen Sie einen Agenten oder nehmen Sie einen kleineren Kontext.</translation>
    </message>
    <message>
        <source>no memory to go on from a shared context: %1 MiB are needed; close an agent or take a smaller context</source>
        <translation>Kein Speicher, um von einem geteilten Kontext aus weiterzumachen: %1 MiB werden gebraucht; schließen Sie einen Agenten oder nehmen Sie einen kleineren Kontext.</translation>
    </message>
    <message>
        <source>part of the answer could not be passed on, most likely for want of memory; ask again</source>
        <translation>Ein Teil der Antwort konnte nicht weitergegeben werden, wohl weil Speicher fehlt; fragen Sie noch einmal.</translation>
    </message>
    <message>
        <source>memory ran out while %1 was loaded; close other programs</source>
        <translation>Der Speicher reichte nicht, um %1 zu laden; schließen Sie andere Programme.</translation>
    </message>
    <message>
        <source>loading %1 was cancelled</source>
        <translation>Das Laden von %1 wurde abgebrochen.</translation>
    </message>
    <message>
        <source>the model is still being loaded: its tokenizer is needed to count</source>
        <translation>Das Modell wird noch geladen: Zum Zählen wird sein Tokenizer gebraucht.</translation>
    </message>
    <message>
        <source>preparing the context was cancelled</source>
        <translation>Das Vorbereiten des Kontexts wurde abgebrochen.</translation>
    </message>
    <message>
        <source>reading the repository was cancelled</source>
        <translation>Das Lesen des Repositorys wurde abgebrochen.</translation>
    </message>
    <message>
        <source>listing the files was cancelled</source>
        <translation>Das Auflisten der Dateien wurde abgebrochen.</translation>
    </message>
    <message>
        <source>cloning was cancelled</source>
        <translation>Das Klonen wurde abgebrochen.</translation>
    </message>
    <message>
        <source>the question was stopped before it was asked</source>
        <translation>Die Frage wurde angehalten, bevor sie gestellt war.</translation>
    </message>
    <message>
        <source>a budget of %1 tokens holds no file: the frame alone takes %2; allow more</source>
        <translation>In ein Budget von %1 Token passt keine Datei: Der Rahmen allein braucht %2. Erlauben Sie mehr.</translation>
    </message>
    <message>
        <source>%1 is not a folder: name a model&apos;s folder, with its config.json, tokenizer.json and safetensors files</source>
        <translation>%1 ist kein Ordner: Nennen Sie den Ordner eines Modells mit seinen Dateien config.json, tokenizer.json und *.safetensors.</translation>
    </message>
    <message>
        <source>%1 holds no config.json: name a model&apos;s folder, with its config.json, tokenizer.json and safetensors files</source>
        <translation>%1 enthält keine config.json: Nennen Sie den Ordner eines Modells mit seinen Dateien config.json, tokenizer.json und *.safetensors.</translation>
    </message>
    <message>
        <source>%1 is missing: download it into the model&apos;s folder</source>
        <translation>%1 fehlt: Laden Sie die Datei in den Ordner des Modells.</translation>
    </message>
    <message>
        <source>%1 has no branch, tag or commit &quot;%2&quot; (it is a shallow clone)</source>
        <translation>%1 hat keinen Branch, Tag oder Commit „%2“ (es ist ein flacher Klon).</translation>
    </message>
    <message>
        <source>%1: &quot;%2&quot; does not lead to a commit</source>
        <translation>%1: „%2“ führt zu keinem Commit.</translation>
    </message>
    <message>
        <source>%1 is no longer at %2: move it back, or choose another context</source>
        <translation>%1 ist nicht mehr unter %2: Bringen Sie es zurück, oder wählen Sie einen anderen Kontext.</translation>
    </message>
    <message>
        <source>%1: its HEAD is damaged (%2): name a branch, tag or commit</source>
        <translation>%1: Sein HEAD ist beschädigt (%2): Nennen Sie einen Branch, Tag oder Commit.</translation>
    </message>
    <message>
        <source>%1: the commit of %2 cannot be read (%3): clone the repository again, or name a branch, tag or commit</source>
        <translation>%1: Der Commit von %2 kann nicht gelesen werden (%3): Klonen Sie das Repository neu, oder nennen Sie einen Branch, Tag oder Commit.</translation>
    </message>
    <message>
        <source>%1: the commit of %2 cannot be read (%3): check its permissions</source>
        <translation>%1: Der Commit von %2 kann nicht gelesen werden (%3): Prüfen Sie die Zugriffsrechte.</translation>
    </message>
    <message>
        <source>%1 is missing in this repository: %2</source>
        <translation>%1 fehlt in diesem Repository: %2</translation>
    </message>
    <message>
        <source>%1 is damaged in this repository: %2</source>
        <translation>%1 ist in diesem Repository beschädigt: %2</translation>
    </message>
    <message>
        <source>glob &quot;%1&quot;: %2</source>
        <translation>Muster „%1“: %2</translation>
    </message>
    <message>
        <source>tokenizer.json has no &lt;|im_start|&gt; and &lt;|im_end|&gt;: Octavo needs a model that speaks ChatML</source>
        <translation>tokenizer.json hat kein &lt;|im_start|&gt; und &lt;|im_end|&gt;: Octavo braucht ein Modell, das ChatML spricht.</translation>
    </message>
    <message>
        <source>the session store was written by a newer Octavo (version %1, this one knows %2): update Octavo</source>
        <translation>Die Sitzungsdatei stammt von einem neueren Octavo (Version %1, dieses kennt %2): Aktualisieren Sie Octavo.</translation>
    </message>
    <message>
        <source>the folder of %1 cannot be made: check who may write there</source>
        <translation>Der Ordner von %1 kann nicht angelegt werden: Prüfen Sie, wer dort schreiben darf.</translation>
    </message>
    <message>
        <source>%1 cannot be listed: %2</source>
        <translation>%1 kann nicht aufgelistet werden: %2</translation>
    </message>
    <message>
        <source>%1 cannot be removed: %2</source>
        <translation>%1 kann nicht entfernt werden: %2</translation>
    </message>
    <message>
        <source>%1 could not be written: %2</source>
        <translation>%1 konnte nicht geschrieben werden: %2</translation>
    </message>
    <message>
        <source>%1: the saved context is damaged (%2)</source>
        <translation>%1: Der gespeicherte Kontext ist beschädigt (%2).</translation>
    </message>
    <message>
        <source>%1: another version of Octavo saved this context</source>
        <translation>%1: Eine andere Version von Octavo hat diesen Kontext gespeichert.</translation>
    </message>
    <message>
        <source>%1: the saved context cannot be read now (%2)</source>
        <translation>%1: Der gespeicherte Kontext kann jetzt nicht gelesen werden (%2).</translation>
    </message>
    <message>
        <source>%1 names no stop id: answers would run to their length limit</source>
        <translation>%1 nennt kein Endezeichen: Antworten liefen bis zu ihrer Längengrenze.</translation>
    </message>
    <message>
        <source>%1 has ids up to %2, but the model's vocabulary has only %3 rows: it belongs to another model</source>
        <translation>%1 hat Nummern bis %2, das Vokabular des Modells aber nur %3 Zeilen: Es gehört zu einem anderen Modell.</translation>
    </message>
    <message>
        <source>%1 cannot be read: %2</source>
        <translation>%1 kann nicht gelesen werden: %2</translation>
    </message>
</context>
<context>
    <name>octavo::ui::ReadPage</name>
    <message>
        <source>It is read once and shared by all panes on this commit. You may close this window: reading goes on.</source>
        <translation>Er wird einmal gelesen und von allen Feldern zu diesem Commit geteilt. Dieses Fenster darf geschlossen werden: das Lesen geht weiter.</translation>
    </message>
    <message>
        <source>Pack the files and turn them into tokens</source>
        <translation>Dateien packen und in Tokens wandeln</translation>
    </message>
    <message>
        <source>Read the tokens into memory</source>
        <translation>Tokens in den Speicher lesen</translation>
    </message>
    <message>
        <source>Reading</source>
        <translation>Wird gelesen</translation>
    </message>
    <message>
        <source>Ready for questions</source>
        <translation>Bereit für Fragen</translation>
    </message>
    <message>
        <source>Stop reading</source>
        <translation>Lesen anhalten</translation>
    </message>
    <message>
        <source>done</source>
        <translation>fertig</translation>
    </message>
    <message>
        <source>running</source>
        <translation>läuft</translation>
    </message>
    <message>
        <source>to come</source>
        <translation>kommt noch</translation>
    </message>
    <message>
        <source>%1 @ %2</source>
        <translation>%1 @ %2</translation>
    </message>
    <message>
        <source>%1 of %2 tokens</source>
        <translation>%1 von %2 Token</translation>
    </message>
    <message>
        <source>%1 tok/s</source>
        <translation>%1 Tok/s</translation>
    </message>
    <message>
        <source>%1 left</source>
        <translation>noch %1</translation>
    </message>
    <message>
        <source>stopped; it is read once a question needs it</source>
        <translation>angehalten; gelesen wird, sobald eine Frage es braucht</translation>
    </message>
    <message>
        <source>Try again</source>
        <translation>Noch einmal</translation>
    </message>
    <message>
        <source>Resume reading</source>
        <translation>Weiterlesen</translation>
    </message>
    <message>
        <source>resumed at %1%</source>
        <translation>fortgesetzt bei %1 %</translation>
    </message>
    <message>
        <source>stopped at %1%; it goes on from there, at once or when a question needs it</source>
        <translation>angehalten bei %1 %; von dort geht es weiter, sofort oder wenn eine Frage es braucht</translation>
    </message>
</context>
<context>
    <name>octavo::ui::RepositoryIntake</name>
    <message>
        <source>%1: the first %L2 of %L3 files (%L4 tokens), so that answers come soon. Add repository chooses what else is read.</source>
        <translation>%1: die ersten %L2 von %L3 Dateien (%L4 Tokens), damit Antworten bald kommen. Unter Repository hinzufügen wird gewählt, was noch gelesen wird.</translation>
    </message>
    <message>
        <source>%1 holds nothing that can be read: all of its %L2 files are left out.</source>
        <translation>%1 enthält nichts, was gelesen werden kann: Alle %L2 Dateien bleiben weg.</translation>
    </message>
</context>
<context>
    <name>octavo::ui::SavedContextsModel</name>
    <message>
        <source>saved</source>
        <translation>gesichert</translation>
    </message>
    <message>
        <source>verified</source>
        <translation>geprüft</translation>
    </message>
    <message>
        <source>damaged</source>
        <translation>beschädigt</translation>
    </message>
    <message>
        <source>another version</source>
        <translation>andere Version</translation>
    </message>
    <message>
        <source>unreadable</source>
        <translation>nicht lesbar</translation>
    </message>
    <message>
        <source>no name</source>
        <translation>ohne Namen</translation>
    </message>
    <message>
        <source>Read by %1, kept in %2</source>
        <translation>Gelesen von %1, abgelegt in %2</translation>
    </message>
    <message>
        <source>Context</source>
        <translation>Kontext</translation>
    </message>
    <message>
        <source>Tokens</source>
        <translation>Tokens</translation>
    </message>
    <message>
        <source>Size</source>
        <translation>Größe</translation>
    </message>
    <message>
        <source>Last used</source>
        <translation>Zuletzt benutzt</translation>
    </message>
    <message>
        <source>State</source>
        <translation>Zustand</translation>
    </message>
    <message>
        <source>%1 of %2</source>
        <translation>%1 von %2</translation>
    </message>
</context>
<context>
    <name>octavo::ui::SavedContextsPage</name>
    <message>
        <source>None</source>
        <translation>Keiner</translation>
    </message>
    <message>
        <source>Verify all</source>
        <translation>Alle prüfen</translation>
    </message>
    <message>
        <source>Remove</source>
        <translation>Entfernen</translation>
    </message>
    <message>
        <source>Remove all</source>
        <translation>Alle entfernen</translation>
    </message>
    <message>
        <source>Saved contexts</source>
        <translation>Gesicherte Kontexte</translation>
    </message>
    <message>
        <source>What the CPU has read is kept on disk and opened again without reading. Where room is short, those that were not used for longest go first.</source>
        <translation>Was die CPU gelesen hat, bleibt auf der Platte und wird ohne Lesen wieder geöffnet. Wird der Platz knapp, gehen die am längsten nicht benutzten zuerst.</translation>
    </message>
    <message>
        <source>Room on disk</source>
        <translation>Platz auf der Platte</translation>
    </message>
    <message>
        <source>Takes effect when Octavo starts next</source>
        <translation>Gilt ab dem nächsten Start von Octavo</translation>
    </message>
    <message>
        <source>Room taken by saved contexts</source>
        <translation>Von gesicherten Kontexten belegter Platz</translation>
    </message>
    <message>
        <source>Contexts are not saved in this run.</source>
        <translation>In diesem Lauf werden Kontexte nicht gesichert.</translation>
    </message>
    <message>
        <source>Nothing is saved yet.
A context is written here, in the background, once the CPU has read it.</source>
        <translation>Noch ist nichts gesichert.
Ein Kontext wird im Hintergrund hierher geschrieben, sobald ihn die CPU gelesen hat.</translation>
    </message>
    <message>
        <source>Keep</source>
        <translation>Behalten</translation>
    </message>
    <message>
        <source>%1 of %2</source>
        <translation>%1 von %2</translation>
    </message>
    <message numerus="yes">
        <source>Reading %Ln files…</source>
        <translation>
            <numerusform>%Ln Datei wird gelesen…</numerusform>
            <numerusform>%Ln Dateien werden gelesen…</numerusform>
        </translation>
    </message>
    <message>
        <source>Every file is as it was written.</source>
        <translation>Jede Datei ist, wie sie geschrieben wurde.</translation>
    </message>
    <message numerus="yes">
        <source>%Ln files cannot be used. Remove them; those contexts are read again.</source>
        <translation>
            <numerusform>%Ln Datei ist unbrauchbar. Entfernen Sie sie; der Kontext wird neu gelesen.</numerusform>
            <numerusform>%Ln Dateien sind unbrauchbar. Entfernen Sie sie; die Kontexte werden neu gelesen.</numerusform>
        </translation>
    </message>
    <message>
        <source>Remove %1 (%2)? It is read anew when it is needed next.</source>
        <translation>%1 (%2) entfernen? Er wird neu gelesen, wenn er wieder gebraucht wird.</translation>
    </message>
    <message numerus="yes">
        <source>Remove all %Ln contexts (%1)? Each is read anew when it is needed next.</source>
        <translation>
            <numerusform>Den einen Kontext (%1) entfernen? Er wird neu gelesen, wenn er wieder gebraucht wird.</numerusform>
            <numerusform>Alle %Ln Kontexte (%1) entfernen? Jeder wird neu gelesen, wenn er wieder gebraucht wird.</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%Ln contexts removed.</source>
        <translation>
            <numerusform>%Ln Kontext entfernt.</numerusform>
            <numerusform>%Ln Kontexte entfernt.</numerusform>
        </translation>
    </message>
</context>
<context>
    <name>octavo::ui::SchedulerStrip</name>
    <message>
        <source>Scheduler: what each agent's time went into</source>
        <translation>Ablauf: womit jeder Agent seine Zeit verbracht hat</translation>
    </message>
    <message>
        <source>Scheduler</source>
        <translation>Ablauf</translation>
    </message>
    <message>
        <source>reading</source>
        <translation>liest</translation>
    </message>
    <message>
        <source>writing</source>
        <translation>schreibt</translation>
    </message>
    <message>
        <source>checking drafts</source>
        <translation>prüft Entwürfe</translation>
    </message>
    <message>
        <source>%1 %2% of the time</source>
        <translation>%1 %2 % der Zeit</translation>
    </message>
    <message>
        <source>%1, %2 s ago: %3</source>
        <translation>%1, vor %2 s: %3</translation>
    </message>
    <message>
        <source>Agent %1</source>
        <translation>Agent %1</translation>
    </message>
    <message>
        <source>idle</source>
        <translation>bereit</translation>
    </message>
    <message>
        <source>Contexts</source>
        <translation>Kontexte</translation>
    </message>
</context>
<context>
    <name>octavo::ui::SegmentBar</name>
    <message>
        <source>%1: %2</source>
        <translation>%1: %2</translation>
    </message>
    <message>
        <source>Free: %1 of %2</source>
        <translation>Frei: %1 von %2</translation>
    </message>
    <message>
        <source>Over by %1</source>
        <translation>Um %1 zu viel</translation>
    </message>
</context>
<context>
    <name>octavo::ui::SelectionWords</name>
    <message>
        <source>left out by you</source>
        <translation>von Ihnen ausgelassen</translation>
    </message>
    <message>
        <source>left out by the patterns</source>
        <translation>von den Mustern ausgelassen</translation>
    </message>
    <message>
        <source>just now</source>
        <translation>gerade eben</translation>
    </message>
    <message>
        <source>%1 min ago</source>
        <translation>vor %1 min</translation>
    </message>
    <message>
        <source>%1 h ago</source>
        <translation>vor %1 h</translation>
    </message>
    <message>
        <source>yesterday</source>
        <translation>gestern</translation>
    </message>
    <message>
        <source>%1 days ago</source>
        <translation>vor %1 Tagen</translation>
    </message>
    <message>
        <source>reading time not known yet</source>
        <translation>Lesezeit noch nicht bekannt</translation>
    </message>
    <message>
        <source>reads in about %1 s</source>
        <translation>in etwa %1 s gelesen</translation>
    </message>
    <message>
        <source>reads in about %1 min</source>
        <translation>in etwa %1 min gelesen</translation>
    </message>
    <message>
        <source>%1 of RAM</source>
        <translation>%1 RAM</translation>
    </message>
    <message>
        <source>shared by all panes on this commit</source>
        <translation>von allen Feldern zu diesem Commit geteilt</translation>
    </message>
</context>
<context>
    <name>octavo::ui::SettingsDialog</name>
    <message>
        <source>Settings</source>
        <translation>Einstellungen</translation>
    </message>
    <message>
        <source>Pages</source>
        <translation>Seiten</translation>
    </message>
    <message>
        <source>Appearance</source>
        <translation>Aussehen</translation>
    </message>
    <message>
        <source>Model and device</source>
        <translation>Modell und Gerät</translation>
    </message>
    <message>
        <source>Answers</source>
        <translation>Antworten</translation>
    </message>
    <message>
        <source>Memory</source>
        <translation>Speicher</translation>
    </message>
    <message>
        <source>Shortcuts</source>
        <translation>Tasten</translation>
    </message>
    <message>
        <source>Close</source>
        <translation>Schließen</translation>
    </message>
    <message>
        <source>As the desktop</source>
        <translation>Wie der Desktop</translation>
    </message>
    <message>
        <source>Light</source>
        <translation>Hell</translation>
    </message>
    <message>
        <source>Dark</source>
        <translation>Dunkel</translation>
    </message>
    <message>
        <source>High contrast</source>
        <translation>Hoher Kontrast</translation>
    </message>
    <message>
        <source>%1%</source>
        <translation>%1 %</translation>
    </message>
    <message>
        <source>Theme</source>
        <translation>Farben</translation>
    </message>
    <message>
        <source>Text size</source>
        <translation>Schriftgröße</translation>
    </message>
    <message>
        <source>Temperature</source>
        <translation>Temperatur</translation>
    </message>
    <message>
        <source>0 takes the likeliest token each time</source>
        <translation>0 nimmt jedes Mal das wahrscheinlichste Token</translation>
    </message>
    <message>
        <source>Top-k</source>
        <translation>Top-k</translation>
    </message>
    <message>
        <source>Top-p</source>
        <translation>Top-p</translation>
    </message>
    <message>
        <source>Min-p</source>
        <translation>Min-p</translation>
    </message>
    <message>
        <source>Seed</source>
        <translation>Startwert</translation>
    </message>
    <message>
        <source>Longest answer</source>
        <translation>Längste Antwort</translation>
    </message>
    <message>
        <source>Saved contexts</source>
        <translation>Gesicherte Kontexte</translation>
    </message>
    <message>
        <source>As the desktop: light or dark, whichever it is set to</source>
        <translation>Wie der Desktop: hell oder dunkel, je nach dessen Einstellung</translation>
    </message>
    <message>
        <source>Of everything in the window, on top of the desktop's own scaling</source>
        <translation>Von allem im Fenster, zusätzlich zur Skalierung des Desktops</translation>
    </message>
    <message>
        <source>These hold from the next question on. At temperature 0 the same question gets the same answer.</source>
        <translation>Diese gelten ab der nächsten Frage. Bei Temperatur 0 bekommt dieselbe Frage dieselbe Antwort.</translation>
    </message>
    <message>
        <source>Sampling</source>
        <translation>Auswahl der Tokens</translation>
    </message>
    <message>
        <source>Tokens to draw from; 0: all</source>
        <translation>Tokens, aus denen gezogen wird; 0: alle</translation>
    </message>
    <message>
        <source>Share of probability to draw from; 1: all</source>
        <translation>Anteil der Wahrscheinlichkeit, aus dem gezogen wird; 1: alles</translation>
    </message>
    <message>
        <source>Least share of the likeliest token's probability; 0: off</source>
        <translation>Mindestanteil an der Wahrscheinlichkeit des wahrscheinlichsten Tokens; 0: aus</translation>
    </message>
    <message>
        <source>The same seed draws the same tokens</source>
        <translation>Derselbe Startwert zieht dieselben Tokens</translation>
    </message>
    <message>
        <source>In tokens; an answer that ends there can go on</source>
        <translation>In Tokens; eine Antwort, die dort endet, kann weitergehen</translation>
    </message>
    <message>
        <source>Drafts: sooner, never another answer</source>
        <translation>Entwürfe: früher, nie eine andere Antwort</translation>
    </message>
    <message>
        <source>Copied from the code</source>
        <translation>Aus dem Code abgeschrieben</translation>
    </message>
    <message>
        <source>Guess that an answer goes on as the code it quotes, several tokens at a time, and check them in one step</source>
        <translation>Vermuten, dass eine Antwort weitergeht wie der Code, den sie zitiert, mehrere Tokens auf einmal, und sie in einem Schritt prüfen</translation>
    </message>
    <message>
        <source>Predicted by the model</source>
        <translation>Vom Modell vorhergesagt</translation>
    </message>
    <message>
        <source>Where nothing can be copied, let the model's own prediction layer (MTP) guess, if it has one; helps with prose</source>
        <translation>Wo sich nichts abschreiben lässt, rät die Vorhersageschicht des Modells (MTP), wenn es eine hat; hilft bei Prosa</translation>
    </message>
</context>
<context>
    <name>octavo::ui::ShortcutsPage</name>
    <message>
        <source>No key</source>
        <translation>Keine Taste</translation>
    </message>
    <message>
        <source>Default</source>
        <translation>Vorgabe</translation>
    </message>
    <message>
        <source>Command</source>
        <translation>Befehl</translation>
    </message>
    <message>
        <source>Key</source>
        <translation>Taste</translation>
    </message>
    <message>
        <source>Find a command or a key</source>
        <translation>Befehl oder Taste finden</translation>
    </message>
    <message>
        <source>Shortcuts</source>
        <translation>Tasten</translation>
    </message>
    <message>
        <source>New key</source>
        <translation>Neue Taste</translation>
    </message>
    <message>
        <source>Press a key</source>
        <translation>Taste drücken</translation>
    </message>
    <message>
        <source>%1 is the key of “%2” now.</source>
        <translation>%1 ist jetzt die Taste für „%2“.</translation>
    </message>
    <message>
        <source>No command is called that.</source>
        <translation>So heißt kein Befehl.</translation>
    </message>
    <message>
        <source>Press a key for “%1” in the field above.</source>
        <translation>Im Feld oben eine Taste für „%1“ drücken.</translation>
    </message>
    <message>
        <source>%1 alone would be missing wherever you write: add Ctrl or Alt.</source>
        <translation>%1 allein würde beim Schreiben fehlen: mit Strg oder Alt verbinden.</translation>
    </message>
    <message>
        <source>%1 is the key of “%2”: choose another, or take it away there first.</source>
        <translation>%1 ist die Taste für „%2“: eine andere wählen oder sie dort erst wegnehmen.</translation>
    </message>
    <message>
        <source>%1 now runs “%2”.</source>
        <translation>%1 führt jetzt „%2“ aus.</translation>
    </message>
</context>
<context>
    <name>octavo::ui::Sidebar</name>
    <message>
        <source>Contexts</source>
        <translation>Kontexte</translation>
    </message>
    <message>
        <source>Repositories you add stand here, each at one commit.</source>
        <translation>Hier stehen hinzugefügte Repositorys, jedes an einem Commit.</translation>
    </message>
    <message>
        <source>History</source>
        <translation>Verlauf</translation>
    </message>
    <message>
        <source>Conversations stand here, to be searched and opened again.</source>
        <translation>Hier stehen Gespräche; sie lassen sich durchsuchen und wieder öffnen.</translation>
    </message>
    <message>
        <source>CONTEXTS</source>
        <translation>KONTEXTE</translation>
    </message>
    <message>
        <source>Add repository</source>
        <translation>Repository hinzufügen</translation>
    </message>
    <message>
        <source>HISTORY</source>
        <translation>VERLAUF</translation>
    </message>
    <message>
        <source>Search the history</source>
        <translation>Verlauf durchsuchen</translation>
    </message>
    <message>
        <source>Search all conversations</source>
        <translation>Alle Gespräche durchsuchen</translation>
    </message>
    <message>
        <source>Use in this pane</source>
        <translation>In diesem Feld verwenden</translation>
    </message>
    <message>
        <source>Use in all panes</source>
        <translation>In allen Feldern verwenden</translation>
    </message>
    <message>
        <source>Stop reading</source>
        <translation>Lesen anhalten</translation>
    </message>
    <message>
        <source>Read now</source>
        <translation>Jetzt lesen</translation>
    </message>
    <message>
        <source>Change files…</source>
        <translation>Dateien ändern …</translation>
    </message>
    <message>
        <source>Update to %1…</source>
        <translation>Auf %1 bringen…</translation>
    </message>
    <message>
        <source>Remove context</source>
        <translation>Kontext entfernen</translation>
    </message>
    <message>
        <source>Open in this pane</source>
        <translation>In diesem Feld öffnen</translation>
    </message>
    <message>
        <source>Rename</source>
        <translation>Umbenennen</translation>
    </message>
    <message>
        <source>Delete</source>
        <translation>Löschen</translation>
    </message>
</context>
<context>
    <name>octavo::ui::SingleInstance</name>
    <message>
        <source>Octavo runs already but does not answer. Wait for it or end it, then start again.</source>
        <translation>Octavo läuft schon, antwortet aber nicht. Warten Sie, oder beenden Sie es, und starten Sie dann neu.</translation>
    </message>
</context>
<context>
    <name>octavo::ui::SourcePage</name>
    <message>
        <source>Where is the repository?</source>
        <translation>Wo liegt das Repository?</translation>
    </message>
    <message>
        <source>Octavo reads one commit and never writes to a repository. Nothing leaves this machine.</source>
        <translation>Octavo liest einen Commit und schreibt nie in ein Repository. Nichts verlässt diesen Rechner.</translation>
    </message>
    <message>
        <source>Folder of the repository</source>
        <translation>Ordner des Repositorys</translation>
    </message>
    <message>
        <source>Path of a folder, or drop one here</source>
        <translation>Pfad eines Ordners, oder einen hier ablegen</translation>
    </message>
    <message>
        <source>Browse…</source>
        <translation>Durchsuchen…</translation>
    </message>
    <message>
        <source>A folder on this machine</source>
        <translation>Ein Ordner auf diesem Rechner</translation>
    </message>
    <message>
        <source>URL to clone</source>
        <translation>Zu klonende URL</translation>
    </message>
    <message>
        <source>Clone</source>
        <translation>Klonen</translation>
    </message>
    <message>
        <source>Through https, or ssh with the keys of your agent.</source>
        <translation>Über https, oder ssh mit den Schlüsseln Ihres Agenten.</translation>
    </message>
    <message>
        <source>Goes into %1</source>
        <translation>Kommt nach %1</translation>
    </message>
    <message>
        <source>Progress of the clone</source>
        <translation>Fortschritt des Klonens</translation>
    </message>
    <message>
        <source>Clone from a URL</source>
        <translation>Von einer URL klonen</translation>
    </message>
    <message>
        <source>Branch, tag or commit</source>
        <translation>Branch, Tag oder Commit</translation>
    </message>
    <message>
        <source>Trust for Octavo only</source>
        <translation>Nur für Octavo vertrauen</translation>
    </message>
    <message>
        <source>Use %1</source>
        <translation>%1 benutzen</translation>
    </message>
    <message>
        <source>Choose a repository</source>
        <translation>Repository wählen</translation>
    </message>
    <message>
        <source>This cannot be read</source>
        <translation>Das lässt sich nicht lesen</translation>
    </message>
    <message>
        <source>“%1”</source>
        <translation>„%1“</translation>
    </message>
    <message>
        <source>Cancel</source>
        <translation>Abbrechen</translation>
    </message>
    <message>
        <source>Cancel the clone</source>
        <translation>Klonen abbrechen</translation>
    </message>
    <message>
        <source>Connecting</source>
        <translation>Verbinden</translation>
    </message>
    <message>
        <source>%1 of %2</source>
        <translation>%1 von %2</translation>
    </message>
    <message>
        <source>%1 left</source>
        <translation>noch %1</translation>
    </message>
</context>
<context>
    <name>octavo::ui::SourceViewer</name>
    <message>
        <source>Source</source>
        <translation>Quelle</translation>
    </message>
    <message>
        <source>Find in this file</source>
        <translation>In dieser Datei finden</translation>
    </message>
    <message>
        <source>Find</source>
        <translation>Finden</translation>
    </message>
    <message>
        <source>Open in editor</source>
        <translation>Im Editor öffnen</translation>
    </message>
    <message>
        <source>Opens the file of the working folder, which may differ from the commit</source>
        <translation>Öffnet die Datei des Arbeitsordners; sie kann vom Commit abweichen</translation>
    </message>
    <message>
        <source>%1 @ %2</source>
        <translation>%1 @ %2</translation>
    </message>
    <message>
        <source>lines %1–%2 · </source>
        <translation>Zeilen %1–%2 · </translation>
    </message>
    <message>
        <source>line %1 · </source>
        <translation>Zeile %1 · </translation>
    </message>
    <message>
        <source>as of %1</source>
        <translation>Stand %1</translation>
    </message>
    <message>
        <source>The file is not in the working folder: it may have moved since this commit.</source>
        <translation>Die Datei ist nicht im Arbeitsordner: sie kann seit diesem Commit verschoben sein.</translation>
    </message>
    <message>
        <source>No editor could be started: set VISUAL to the one you use.</source>
        <translation>Kein Editor ließ sich starten: VISUAL auf den Ihren setzen.</translation>
    </message>
</context>
<context>
    <name>octavo::ui::StackedChart</name>
    <message>
        <source>%1: %2</source>
        <translation>%1: %2</translation>
    </message>
    <message>
        <source>All: %1</source>
        <translation>Alle: %1</translation>
    </message>
    <message>
        <source>%1 s ago</source>
        <translation>vor %1 s</translation>
    </message>
</context>
<context>
    <name>octavo::ui::StageWords</name>
    <message>
        <source>Listing files</source>
        <translation>Dateien auflisten</translation>
    </message>
    <message>
        <source>Counting tokens</source>
        <translation>Tokens zählen</translation>
    </message>
    <message>
        <source>Receiving objects</source>
        <translation>Objekte empfangen</translation>
    </message>
    <message>
        <source>Resolving deltas</source>
        <translation>Differenzen auflösen</translation>
    </message>
    <message>
        <source>Writing files</source>
        <translation>Dateien schreiben</translation>
    </message>
    <message>
        <source>Reading the configuration</source>
        <translation>Konfiguration lesen</translation>
    </message>
    <message>
        <source>Opening the weights</source>
        <translation>Gewichte öffnen</translation>
    </message>
    <message>
        <source>Ready</source>
        <translation>Bereit</translation>
    </message>
    <message>
        <source>Preparing %1</source>
        <translation>%1 wird vorbereitet</translation>
    </message>
    <message>
        <source>Quantising the weights for %1</source>
        <translation>Gewichte werden für %1 quantisiert</translation>
    </message>
</context>
<context>
    <name>octavo::ui::StartPage</name>
    <message>
        <source>Open a repository…</source>
        <translation>Repository öffnen…</translation>
    </message>
    <message>
        <source>Choose what is read…</source>
        <translation>Wählen, was gelesen wird…</translation>
    </message>
    <message>
        <source>Choose a model…</source>
        <translation>Modell wählen …</translation>
    </message>
    <message>
        <source>Quit</source>
        <translation>Beenden</translation>
    </message>
    <message>
        <source>or drop a folder here</source>
        <translation>oder einen Ordner hier ablegen</translation>
    </message>
    <message>
        <source>It can</source>
        <translation>Es kann</translation>
    </message>
    <message>
        <source>It cannot</source>
        <translation>Es kann nicht</translation>
    </message>
    <message>
        <source>For more</source>
        <translation>Für mehr</translation>
    </message>
    <message>
        <source>Open a repository</source>
        <translation>Repository öffnen</translation>
    </message>
    <message>
        <source>Loading the model</source>
        <translation>Das Modell wird geladen</translation>
    </message>
    <message>
        <source>Starting…</source>
        <translation>Startet …</translation>
    </message>
    <message>
        <source>%1 of %2</source>
        <translation>%1 von %2</translation>
    </message>
    <message>
        <source>Eight agents over your code</source>
        <translation>Acht Agenten für Ihren Code</translation>
    </message>
    <message>
        <source>Octavo reads one commit of a git repository, on this machine, and eight panes answer questions about it side by side. What an answer quotes is looked up in that commit and marked as verified or not.</source>
        <translation>Octavo liest einen Commit eines Git-Repositorys, auf diesem Rechner, und acht Felder beantworten nebeneinander Fragen dazu. Was eine Antwort zitiert, wird in diesem Commit nachgeschlagen und als belegt oder unbelegt markiert.</translation>
    </message>
    <message>
        <source>%1 is loaded, with room for %2 tokens per agent.</source>
        <translation>%1 ist geladen, mit Platz für %2 Token je Agent.</translation>
    </message>
    <message>
        <source>The demo model is loaded: %1 parameters</source>
        <translation>Das Demo-Modell ist geladen: %1 Parameter</translation>
    </message>
    <message>
        <source>Find definitions, quote code and name files, within seconds of reading. On a CPU the first 24,000 tokens of a repository are read to begin with.</source>
        <translation>Definitionen finden, Code zitieren und Dateien nennen, Sekunden nach dem Lesen. Auf einer CPU werden zunächst die ersten 24.000 Tokens eines Repositorys gelesen.</translation>
    </message>
    <message>
        <source>Explain, judge or write code. Now and then it names the wrong file: the marks on an answer say what stands where.</source>
        <translation>Code erklären, beurteilen oder schreiben. Hin und wieder nennt es die falsche Datei: die Marken an einer Antwort sagen, was wo steht.</translation>
    </message>
    <message>
        <source>Octavo is made for Qwen3.8-27B in int4 from Hugging Face, on one or two GPUs of 24 GB. Download it into a folder and choose that folder in the settings; they say whether it fits before anything is loaded.</source>
        <translation>Octavo ist für Qwen3.8-27B in int4 von Hugging Face gemacht, auf einer oder zwei GPUs mit 24 GB. In einen Ordner laden und ihn in den Einstellungen wählen; dort steht, ob es passt, bevor etwas geladen wird.</translation>
    </message>
    <message>
        <source>Trust for Octavo only</source>
        <translation>Nur für Octavo vertrauen</translation>
    </message>
    <message>
        <source>Choose files…</source>
        <translation>Dateien wählen…</translation>
    </message>
    <message>
        <source>%1: %2</source>
        <translation>%1: %2</translation>
    </message>
</context>
<context>
    <name>octavo::ui::StatusCard</name>
    <message>
        <source>Try again</source>
        <translation>Noch einmal</translation>
    </message>
    <message>
        <source>Change context…</source>
        <translation>Kontext ändern …</translation>
    </message>
    <message>
        <source>This answer failed.</source>
        <translation>Diese Antwort ist fehlgeschlagen.</translation>
    </message>
    <message>
        <source>Reading the question</source>
        <translation>Die Frage wird gelesen</translation>
    </message>
    <message>
        <source>Reading %1</source>
        <translation>%1 wird gelesen</translation>
    </message>
    <message>
        <source>Waiting for its turn</source>
        <translation>Wartet, bis es an der Reihe ist</translation>
    </message>
    <message>
        <source>The question is saved and runs as soon as there is room.</source>
        <translation>Die Frage ist gespeichert und läuft, sobald Platz ist.</translation>
    </message>
    <message>
        <source>The question is saved and runs as soon as %1 has room.</source>
        <translation>Die Frage ist gespeichert und läuft, sobald %1 Platz hat.</translation>
    </message>
</context>
<context>
    <name>octavo::ui::ThroughputCard</name>
    <message>
        <source>%1 tok/s</source>
        <translation>%1 Tok/s</translation>
    </message>
    <message>
        <source>%1 s</source>
        <translation>%1 s</translation>
    </message>
    <message>
        <source>%1 min</source>
        <translation>%1 min</translation>
    </message>
    <message>
        <source>%1 ms</source>
        <translation>%1 ms</translation>
    </message>
    <message>
        <source>drafts %1 · worst gap %2 · TTFT %3</source>
        <translation>Entwürfe %1 · längste Lücke %2 · TTFT %3</translation>
    </message>
    <message>
        <source>All agents</source>
        <translation>Alle Agenten</translation>
    </message>
    <message>
        <source> tok/s</source>
        <translation> Tok/s</translation>
    </message>
    <message>
        <source>Drafts accepted per round, mean over the agents · longest wait for a token in an answer · time to first token, median over the agents</source>
        <translation>Angenommene Entwürfe je Runde, Mittel der Agenten · längstes Warten auf ein Token einer Antwort · Zeit bis zum ersten Token, Median der Agenten</translation>
    </message>
    <message>
        <source>Time window</source>
        <translation>Zeitfenster</translation>
    </message>
    <message>
        <source>Pause</source>
        <translation>Anhalten</translation>
    </message>
    <message>
        <source>Hold the charts still; recording goes on</source>
        <translation>Bilder anhalten; aufgezeichnet wird weiter</translation>
    </message>
    <message>
        <source>CSV</source>
        <translation>CSV</translation>
    </message>
    <message>
        <source>Export as CSV</source>
        <translation>Als CSV exportieren</translation>
    </message>
    <message>
        <source>Save the figures of the shown time as CSV</source>
        <translation>Die Zahlen der gezeigten Zeit als CSV speichern</translation>
    </message>
    <message>
        <source>PNG</source>
        <translation>PNG</translation>
    </message>
    <message>
        <source>Export as PNG</source>
        <translation>Als PNG exportieren</translation>
    </message>
    <message>
        <source>Save a picture of the dashboard</source>
        <translation>Ein Bild der Anzeige speichern</translation>
    </message>
    <message>
        <source>Tokens per second by agent</source>
        <translation>Tokens je Sekunde nach Agent</translation>
    </message>
    <message>
        <source>Resume</source>
        <translation>Weiter</translation>
    </message>
    <message>
        <source>reading %1 tok/s · %2</source>
        <translation>Lesen %1 Tok/s · %2</translation>
    </message>
</context>
<context>
    <name>octavo::ui::TranscriptView</name>
    <message>
        <source>Copy</source>
        <translation>Kopieren</translation>
    </message>
    <message>
        <source>Select all</source>
        <translation>Alles auswählen</translation>
    </message>
    <message>
        <source>Copy answer as Markdown</source>
        <translation>Antwort als Markdown kopieren</translation>
    </message>
    <message>
        <source>Scroll the transcript</source>
        <translation>Verlauf rollen</translation>
    </message>
    <message>
        <source>Jump to end</source>
        <translation>Ans Ende springen</translation>
    </message>
</context>
<context>
    <name>octavo::ui::TranscriptWords</name>
    <message>
        <source>Copy</source>
        <translation>Kopieren</translation>
    </message>
    <message>
        <source>text</source>
        <translation>Text</translation>
    </message>
    <message>
        <source>verified</source>
        <translation>belegt</translation>
    </message>
    <message>
        <source>unverified: this code is not in the context</source>
        <translation>nicht belegt: Dieser Code steht nicht im Kontext</translation>
    </message>
    <message>
        <source>Stopped.</source>
        <translation>Angehalten.</translation>
    </message>
    <message>
        <source>Ended: the context is full.</source>
        <translation>Beendet: Der Kontext ist voll.</translation>
    </message>
    <message>
        <source>Ended at the limit for an answer's length. Continue goes on from here; the limit is in Settings, under Answers.</source>
        <translation>An der Grenze für die Länge einer Antwort beendet. Fortsetzen schreibt von hier weiter; die Grenze steht in den Einstellungen unter „Antworten“.</translation>
    </message>
    <message>
        <source>Ended at the limit for an answer's length.</source>
        <translation>An der Grenze für die Länge einer Antwort beendet.</translation>
    </message>
    <message>
        <source>Ended: the answer began to repeat itself.</source>
        <translation>Beendet: Die Antwort begann sich zu wiederholen.</translation>
    </message>
    <message>
        <source>Interrupted when Octavo closed, before the answer began.</source>
        <translation>Unterbrochen, als Octavo schloss, ehe die Antwort begann.</translation>
    </message>
    <message>
        <source>Interrupted when Octavo closed; the text so far is here.</source>
        <translation>Unterbrochen, als Octavo schloss; der Text bis dahin ist hier.</translation>
    </message>
    <message>
        <source>Failed.</source>
        <translation>Fehlgeschlagen.</translation>
    </message>
    <message numerus="yes">
        <source>%Ln tokens</source>
        <translation>
            <numerusform>%Ln Token</numerusform>
            <numerusform>%Ln Token</numerusform>
        </translation>
    </message>
    <message>
        <source>%1 tok/s</source>
        <translation>%1 Tok/s</translation>
    </message>
    <message>
        <source>first after %1 s</source>
        <translation>erstes nach %1 s</translation>
    </message>
    <message>
        <source>%1 of %2 reused</source>
        <translation>%1 von %2 wiederverwendet</translation>
    </message>
    <message>
        <source>%1 drafted</source>
        <translation>%1 entworfen</translation>
    </message>
    <message>
        <source>Continue</source>
        <translation>Fortsetzen</translation>
    </message>
    <message>
        <source>Regenerate</source>
        <translation>Neu erzeugen</translation>
    </message>
    <message>
        <source>Open %1</source>
        <translation>%1 öffnen</translation>
    </message>
    <message>
        <source>unverified</source>
        <translation>nicht belegt</translation>
    </message>
    <message>
        <source>in another file than the answer says:</source>
        <translation>in einer anderen Datei, als die Antwort sagt:</translation>
    </message>
</context>
<context>
    <name>octavo::ui::Treemap</name>
    <message>
        <source>Map of what takes the context</source>
        <translation>Karte dessen, was den Kontext füllt</translation>
    </message>
    <message>
        <source>%1 · %2 tokens · %3</source>
        <translation>%1 · %2 Tokens · %3</translation>
    </message>
    <message>
        <source>%1 · %2 tokens · %3 · not read</source>
        <translation>%1 · %2 Tokens · %3 · nicht gelesen</translation>
    </message>
</context>
</TS>
