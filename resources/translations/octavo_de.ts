<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="de_DE">
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
    <message>
        <source>1 pane</source>
        <translation>1 Feld</translation>
    </message>
    <message>
        <source>%1 panes</source>
        <translation>%1 Felder</translation>
    </message>
    <message>
        <source>read</source>
        <translation>gelesen</translation>
    </message>
    <message>
        <source>%1 files packed, %2 left out</source>
        <translation>%1 Dateien gepackt, %2 ausgelassen</translation>
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
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Save the dashboard</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Comma-separated values (*.csv)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>PNG image (*.png)</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>octavo::ui::DeviceCard</name>
    <message>
        <source>%1 GB/s</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1 MB/s</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1%</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1 / %2 GiB</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Host tier</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Tier read</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Hot-buffer hits</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>GPU %1</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1 °C</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1 W</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>VRAM</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>RAM</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Weights</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Sequences, sketch and state</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>In use</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Hot buffer</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>KV rows</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>PCIe read</source>
        <translation type="unfinished"></translation>
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
        <source>Ctrl ⇧ A</source>
        <translation>Strg ⇧ A</translation>
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
        <source>The panes&apos; answers side by side</source>
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
        <source>%n message(s)</source>
        <translation>
            <numerusform>%n Nachricht</numerusform>
            <numerusform>%n Nachrichten</numerusform>
        </translation>
    </message>
</context>
<context>
    <name>octavo::ui::LineChart</name>
    <message>
        <source>%1 s ago</source>
        <translation type="unfinished"></translation>
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
        <source>No pane has a context yet: add a repository first.</source>
        <translation>Noch hat kein Feld einen Kontext: Fügen Sie erst ein Repository hinzu.</translation>
    </message>
    <message>
        <source>No pane is free: wait for an answer or stop one.</source>
        <translation>Kein Feld ist frei: Warten Sie auf eine Antwort, oder halten Sie eine an.</translation>
    </message>
    <message>
        <source>Sent to 1 pane</source>
        <translation>An 1 Feld gesendet</translation>
    </message>
    <message>
        <source>Sent to %1 panes</source>
        <translation>An %1 Felder gesendet</translation>
    </message>
    <message>
        <source>%1 panes are busy and keep their context.</source>
        <translation>%1 Felder arbeiten und behalten ihren Kontext.</translation>
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
</context>
<context>
    <name>octavo::ui::SchedulerStrip</name>
    <message>
        <source>Scheduler: what each agent&apos;s time went into</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Scheduler</source>
        <translation type="unfinished"></translation>
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
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1 %2% of the time</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1, %2 s ago: %3</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Agent %1</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>idle</source>
        <translation>bereit</translation>
    </message>
</context>
<context>
    <name>octavo::ui::SegmentBar</name>
    <message>
        <source>%1: %2</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Free: %1 of %2</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Over by %1</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>octavo::ui::Sidebar</name>
    <message>
        <source>Contexts</source>
        <translation>Kontexte</translation>
    </message>
    <message>
        <source>History</source>
        <translation>Verlauf</translation>
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
        <source>Change files…</source>
        <translation>Dateien ändern …</translation>
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
    <name>octavo::ui::StackedChart</name>
    <message>
        <source>%1: %2</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>All: %1</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1 s ago</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>octavo::ui::StartPage</name>
    <message>
        <source>Add a repository…</source>
        <translation>Ein Repository hinzufügen …</translation>
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
        <source>Add a git repository: Octavo reads one commit of it, on this machine, and eight panes answer questions about it side by side. What an answer quotes is looked up in that commit and marked as verified or not.</source>
        <translation>Fügen Sie ein Git-Repository hinzu: Octavo liest einen Commit davon, auf diesem Rechner, und acht Felder beantworten nebeneinander Fragen dazu. Was eine Antwort zitiert, wird in diesem Commit nachgeschlagen und als belegt oder nicht belegt gekennzeichnet.</translation>
    </message>
    <message>
        <source>The demo model is loaded (%1 parameters). It is small: it finds definitions, quotes code and names files, and it can be wrong about anything beyond that. For real answers choose a folder with a Qwen3.5 checkpoint from Hugging Face in the settings; it stays on this machine, too.</source>
        <translation>Geladen ist das Vorführmodell (%1 Parameter). Es ist klein: Es findet Definitionen, zitiert Code und nennt Dateien; bei allem darüber hinaus kann es sich irren. Für richtige Antworten wählen Sie in den Einstellungen einen Ordner mit einem Qwen3.5-Modell von Hugging Face; auch das bleibt auf diesem Rechner.</translation>
    </message>
    <message>
        <source>%1 is loaded, with room for %2 tokens per agent.</source>
        <translation>%1 ist geladen, mit Platz für %2 Token je Agent.</translation>
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
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>%1 min</source>
        <translation>%1 min</translation>
    </message>
    <message>
        <source>%1 ms</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>all agents · accepted drafts %1 · worst gap %2 · TTFT %3</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>All agents</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source> tok/s</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Drafts accepted per round, mean over the agents · longest wait for a token in an answer · time to first token, median over the agents</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Time window</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Pause</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Hold the charts still; recording goes on</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>CSV</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Export as CSV</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Save the figures of the shown time as CSV</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>PNG</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Export as PNG</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Save a picture of the dashboard</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Tokens per second by agent</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Resume</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>octavo::ui::TranscriptView</name>
    <message>
        <source>Scroll the transcript</source>
        <translation>Verlauf rollen</translation>
    </message>
    <message>
        <source>Jump to end</source>
        <translation>Ans Ende springen</translation>
    </message>
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
        <source>found elsewhere</source>
        <translation>anderswo gefunden</translation>
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
        <source>Ended at the length limit.</source>
        <translation>An der Längengrenze beendet.</translation>
    </message>
    <message>
        <source>Interrupted when Octavo closed; the text so far is here.</source>
        <translation>Unterbrochen, als Octavo schloss; der Text bis dahin ist hier.</translation>
    </message>
    <message>
        <source>Failed.</source>
        <translation>Fehlgeschlagen.</translation>
    </message>
    <message>
        <source>%1 tokens</source>
        <translation>%1 Token</translation>
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
</context>
</TS>
