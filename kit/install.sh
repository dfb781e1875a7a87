#!/bin/sh
# Installs the taskhub relay for this user and enrols this machine as an executor of the hub at @HUB_URL@:
#
#   curl -fsSL @HUB_URL@/kit/install.sh | sh -s -- --enroll CODE
#
# Needs python3 (3.8 or later) and curl, and no root. Everything is below the home directory of the user, and --uninstall
# removes all of it. The key of the executor is in one file that only this user can read; it is never an argument of a program.
# One file, because one download installs it.
#
# shellcheck disable=SC2329 # Functions are called by name, through `step`.
set -eu
umask 077

hub='@HUB_URL@'
relay_sha256='@RELAY_SHA256@'
skill_sha256='@SKILL_SHA256@'

code='' runner='' command_line='' queues='' concurrency=''
action=install dry_run='' no_service=''
python='' temporary='' made='' made_before='' is_done='' next_steps=''
# They would send the relay to another hub than that of this script.
unset TASKHUB_URL TASKHUB_KEY TASKHUB_CONFIG

usage() {
    cat <<USAGE
usage: curl -fsSL $hub/kit/install.sh | sh -s -- [options]

  --enroll CODE       trade a one-time code of the hub's owner for a key, and install (the owner: POST
                      /api/executors/NAME/enroll, or Claude's tool enroll_executor)
  --runner NAME       with --enroll: run this model for each task (claude, codex, grok or gemini; default: the first found)
  --command LINE      with --enroll: run this line of shell for each task instead
  --queues A,B        with --enroll: take tasks of these queues only
  --concurrency N     with --enroll: work on so many tasks at a time (default 1)
  --no-service        install no service; say how to start the relay instead
  --upgrade           bring what is installed up to date (also without any option, where the machine is enrolled)
  --uninstall         stop the relay and remove everything, the key too
  --dry-run           with any of these: say every step, and change nothing
  --help              this text
USAGE
}

say() {
    printf 'taskhub: %s\n' "$*"
}

complain() {
    printf 'taskhub: %s\n' "$*" >&2
}

die() {
    complain "$@"
    exit 1
}

misused() {
    complain "$@" "--help shows all options."
    exit 2
}

# Adds a line to what is to be done next.
later() {
    next_steps="$next_steps
  - $*"
}

# Says a step and does it; in a dry run, only says it.
step() {
    what=$1
    shift
    if [ -n "$dry_run" ]; then
        say "would $what"
    else
        say "$what"
        "$@" || die "this failed: $what. Mend what is said above, and run the same line again."
    fi
}

parse() {
    while [ $# -gt 0 ]; do
        option=$1
        shift
        case $option in
        --*=*)
            value=${option#*=}
            option=${option%%=*}
            ;;
        --enroll | --runner | --command | --queues | --concurrency)
            [ $# -gt 0 ] || misused "$option needs a value."
            value=$1
            shift
            ;;
        *) value='' ;;
        esac
        case $option in
        --enroll | --runner | --command | --queues | --concurrency) [ -n "$value" ] || misused "$option needs a value." ;;
        esac
        case $option in
        --enroll) code=$value ;;
        --runner) runner=$value ;;
        --command) command_line=$value ;;
        --queues) queues=$value ;;
        --concurrency) concurrency=$value ;;
        --upgrade | --uninstall)
            [ "$action" = install ] || misused "--upgrade and --uninstall exclude each other."
            action=${option#--}
            ;;
        --no-service) no_service=yes ;;
        --dry-run) dry_run=yes ;;
        --help)
            usage
            exit 0
            ;;
        *) misused "there is no option $option." ;;
        esac
    done
    case $hub in
    http://* | https://*) ;;
    *) die "get this script from your hub, which fills in its address: curl -fsSL https://HUB/kit/install.sh" ;;
    esac
    if [ -n "$code" ]; then
        [ "$action" = install ] || misused "--enroll does not go with --$action."
        case $code in
        enr_*) ;;
        *) misused "a code begins with enr_: copy the whole line that the owner was given." ;;
        esac
    elif [ -n "$runner$command_line$queues$concurrency" ]; then
        misused "--runner, --command, --queues and --concurrency go with --enroll. To change them later, edit relay.json" \
            "(taskhub-relay doctor says where it is), then run this with --upgrade."
    fi
    [ -z "$runner" ] || [ -z "$command_line" ] || misused "--runner and --command exclude each other."
}

# The folder that a variable names, or else one below the home directory.
folder() {
    case $1 in
    /*) printf '%s\n' "$1" ;;
    *) printf '%s\n' "$HOME/$2" ;;
    esac
}

find_places() {
    [ -n "${HOME:-}" ] && [ -d "$HOME" ] || die "HOME is not set to a directory; set it to that of the user who runs the relay."
    data=$(folder "${XDG_DATA_HOME:-}" .local/share)/taskhub
    state=$(folder "${XDG_STATE_HOME:-}" .local/state)/taskhub
    config_home=$(folder "${XDG_CONFIG_HOME:-}" .config)
    config=$config_home/taskhub/relay.json
    wrapper=$HOME/.local/bin/taskhub-relay
    unit=$config_home/systemd/user/taskhub-relay.service
    agent=$HOME/Library/LaunchAgents/taskhub.relay.plist
    # A session that su or ssh opened may not know where its manager is.
    if [ -z "${XDG_RUNTIME_DIR:-}" ] && [ -d "/run/user/$(id -u)" ]; then
        XDG_RUNTIME_DIR=/run/user/$(id -u)
        export XDG_RUNTIME_DIR
    fi
}

has() {
    command -v "$1" >/dev/null 2>&1
}

check_tools() {
    has curl || die "curl is missing. Install it (Debian: apt install curl), then run this again."
    python=$(command -v python3) ||
        die "python3 is missing. Install it (Debian: apt install python3; macOS: xcode-select --install), then run this again."
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 8))' ||
        die "$python is $("$python" --version 2>&1), or does not run. Install Python 3.8 or later, then run this again."
}

# A field of relay.json; nothing if it is not there or null.
config_says() {
    "$python" - "$config" "$1" <<'PYTHON'
import json, sys
try:
    with open(sys.argv[1], encoding="utf-8") as file:
        print(json.load(file).get(sys.argv[2]) or "")
except (OSError, ValueError, AttributeError):
    pass
PYTHON
}

check_config() {
    [ -n "$code" ] && return
    [ -f "$config" ] || die "this machine is not enrolled, so there is nothing to bring up to date. Ask the hub's owner for a" \
        "code, then: curl -fsSL $hub/kit/install.sh | sh -s -- --enroll CODE"
    enrolled_at=$(config_says url)
    [ -n "$enrolled_at" ] || die "$config cannot be read, or names no hub. Mend it, or ask the hub's owner for a code and run" \
        "this with --enroll CODE."
    [ "$enrolled_at" = "$hub" ] ||
        complain "this machine works for $enrolled_at, and goes on so; what is installed now comes from $hub."
}

# Makes a folder and those above it, and remembers which, so that they can go again.
make_folder() {
    [ -d "$1" ] && return
    make_folder "$(dirname "$1")" && mkdir "$1" && made="$1
$made"
}

# Removes these folders, a line each, the innermost first, as far as they are empty.
remove_folders() {
    printf '%s\n' "$1" | while IFS= read -r place; do
        [ -z "$place" ] || rmdir "$place" 2>/dev/null || true
    done
}

cleanup() {
    [ -z "$temporary" ] || rm -rf "$temporary"
    [ -n "$is_done" ] || remove_folders "$made"
}

sha256_of() {
    if has sha256sum; then
        sha256sum <"$1"
    elif has shasum; then
        shasum -a 256 <"$1"
    elif has openssl; then
        openssl dgst -sha256 -r <"$1"
    else
        "$python" -c 'import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())' <"$1"
    fi | cut -c 1-64
}

# Gets a file of the kit and compares its checksum. The checksum in the address keeps a cache from giving out an older one.
download() {
    curl -fsSL --retry 2 --connect-timeout 20 --max-time 300 -o "$temporary/$1" "$hub/kit/$1?sha256=$2" ||
        die "could not download $hub/kit/$1 (curl says why above). Nothing was changed; run this again."
    [ "$(sha256_of "$temporary/$1")" = "$2" ] ||
        die "$1 has another checksum than this script says, so nothing was changed. The hub may have been updated within the last" \
            "five minutes: run this again then. If it stays so, tell the hub's owner."
}

download_kit() {
    temporary=$(mktemp -d "${TMPDIR:-/tmp}/taskhub.XXXXXX") || die "could not make a temporary folder; is the disk full?"
    download relay.py "$relay_sha256"
    download SKILL.md "$skill_sha256"
    "$python" "$temporary/relay.py" --version >/dev/null ||
        die "the relay does not run with $python (see above), and nothing was changed. On Debian, apt install python3 brings all" \
            "of its library."
}

enrol() {
    set -- enroll --url "$hub"
    [ -z "$runner" ] || set -- "$@" "--runner=$runner"
    [ -z "$command_line" ] || set -- "$@" "--command=$command_line"
    [ -z "$queues" ] || set -- "$@" "--queues=$queues"
    [ -z "$concurrency" ] || set -- "$@" "--concurrency=$concurrency"
    make_folder "$(dirname "$config")" || die "could not make $(dirname "$config")."
    # The code is an argument here as it is in the line that brought this script: it is good once, and for ten minutes. The key,
    # which is good for ever, goes from the relay's memory into its file.
    if "$python" "$temporary/relay.py" "$@" "$code" >"$temporary/said" 2>"$temporary/complained"; then
        say "$(head -n 1 "$temporary/said")"
        return
    fi
    if is_enrolled_already; then
        say "the code was used before, and this machine has a key that works: going on with that."
        [ -z "$runner$command_line$queues$concurrency" ] ||
            later "What this machine runs is as it was: to change that, edit $config, then run this with --upgrade."
        return
    fi
    cat "$temporary/complained" >&2
    # Who was refused for good asks with another code next time; who got no answer asks again with the same nonce.
    if grep -qE 'code_(used|expired|invalid|withdrawn)|executor_disabled' "$temporary/complained"; then
        rm -f "$config.enroll"
        die "this machine was not enrolled (see above), and nothing was installed."
    fi
    die "this machine was not enrolled (see above), and nothing was installed. Mend that, and run the same line again while the" \
        "code is good."
}

# Whether the same line ran before: the code is used, and the key that it gave works.
is_enrolled_already() {
    executor=${code#enr_}
    grep -q code_used "$temporary/complained" && [ -f "$config" ] && [ "$(config_says url)" = "$hub" ] &&
        [ "$(config_says executor)" = "${executor%%.*}" ] && "$python" "$temporary/relay.py" ping >/dev/null 2>&1 &&
        rm -f "$config.enroll"
}

# Puts a file in place, whole or not at all.
put() {
    cp "$1" "$2.new" && chmod "$3" "$2.new" && mv -f "$2.new" "$2"
}

# A text as one word of a shell.
quoted() {
    printf "'%s'" "$(printf '%s' "$1" | sed "s/'/'\\\\''/g")"
}

put_relay() {
    make_folder "$data" && make_folder "$state" && make_folder "$(dirname "$wrapper")" || return 1
    put "$temporary/relay.py" "$data/relay.py" 600 && put "$temporary/SKILL.md" "$data/SKILL.md" 600 || return 1
    printf '#!/bin/sh\nexec %s %s "$@"\n' "$(quoted "$python")" "$(quoted "$data/relay.py")" >"$temporary/wrapper" &&
        put "$temporary/wrapper" "$wrapper" 700
}

# Keeps which folders are ours.
remember_folders() {
    printf '%s' "$made$made_before" >"$temporary/folders" && put "$temporary/folders" "$data/folders" 600
}

# Those of an earlier run are ours too.
recall_folders() {
    [ ! -f "$data/folders" ] || made_before="$(cat "$data/folders")
"
}

service_kind() {
    if [ -n "$no_service" ]; then
        echo none
    elif has systemctl && systemctl --user show-environment >/dev/null 2>&1; then
        echo systemd
    elif has launchctl && [ "$(uname -s)" = Darwin ]; then
        echo launchd
    else
        echo none
    fi
}

# A text as one word of a unit's setting, and of a command in it.
unit_word() {
    printf '"%s"' "$(printf '%s' "$1" | sed 's/[\\"]/\\&/g; s/%/%%/g')"
}

unit_argument() {
    unit_word "$1" | sed 's/\$/$$/g'
}

# The variables that say where the relay's files are, where they are set, as lines of the form NAME VALUE.
own_places() {
    own_place XDG_CONFIG_HOME "${XDG_CONFIG_HOME:-}"
    own_place XDG_DATA_HOME "${XDG_DATA_HOME:-}"
    own_place XDG_STATE_HOME "${XDG_STATE_HOME:-}"
}

own_place() {
    case $2 in
    /*) printf '%s %s\n' "$1" "$2" ;;
    esac
}

# Exit code 2 of the relay says that a person must change something first, so that starting it again would not help.
write_unit() {
    make_folder "$(dirname "$unit")/default.target.wants" || return 1
    {
        printf '[Unit]\nDescription=taskhub relay\n\n[Service]\n'
        own_places | while read -r name place; do printf 'Environment=%s\n' "$(unit_word "$name=$place")"; done
        printf 'ExecStart=%s %s run\n' "$(unit_argument "$python")" "$(unit_argument "$data/relay.py")"
        printf 'Restart=always\nRestartSec=10\nRestartPreventExitStatus=2\nKillMode=mixed\nTimeoutStopSec=30\nUMask=0077\n'
        printf '\n[Install]\nWantedBy=default.target\n'
    } >"$temporary/unit" && put "$temporary/unit" "$unit" 600
}

start_unit() {
    systemctl --user daemon-reload && systemctl --user --quiet enable taskhub-relay.service &&
        systemctl --user restart taskhub-relay.service
}

# A user's services end when the user logs out, unless the user lingers.
let_linger() {
    has loginctl || return 0
    user=$(id -un)
    [ "$(loginctl show-user "$user" --property=Linger --value 2>/dev/null)" != yes ] || return 0
    if loginctl --no-ask-password enable-linger >/dev/null 2>&1; then
        : >"$data/lingers"
        say "it runs on when you log out, and starts with the machine (loginctl enable-linger)"
    else
        later "The relay ends when you log out. To have it run always: sudo loginctl enable-linger $user"
    fi
}

install_systemd() {
    step "write $unit" write_unit
    step "enable and start the systemd user unit taskhub-relay" start_unit
    step "let the unit run while nobody is logged in" let_linger
    later "See what it does: journalctl --user -u taskhub-relay -f"
}

xml() {
    printf '%s' "$1" | sed 's/&/\&amp;/g; s/</\&lt;/g; s/>/\&gt;/g'
}

write_agent() {
    make_folder "$(dirname "$agent")" || return 1
    {
        printf '<?xml version="1.0" encoding="UTF-8"?>\n<plist version="1.0"><dict>\n'
        printf '<key>Label</key><string>taskhub.relay</string>\n'
        printf '<key>ProgramArguments</key><array><string>%s</string><string>%s</string><string>run</string></array>\n' \
            "$(xml "$python")" "$(xml "$data/relay.py")"
        printf '<key>EnvironmentVariables</key><dict>\n'
        own_places | while read -r name place; do printf '<key>%s</key><string>%s</string>\n' "$name" "$(xml "$place")"; done
        printf '</dict>\n<key>RunAtLoad</key><true/><key>ThrottleInterval</key><integer>30</integer>\n'
        printf '<key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>\n'
        printf '<key>StandardErrorPath</key><string>%s</string>\n' "$(xml "$state/relay.log")"
        printf '</dict></plist>\n'
    } >"$temporary/agent" && put "$temporary/agent" "$agent" 600
}

stop_agent() {
    for domain in gui user; do launchctl bootout "$domain/$(id -u)/taskhub.relay" 2>/dev/null || true; done
}

# Without a session at the screen there is no domain gui.
start_agent() {
    stop_agent
    launchctl bootstrap "gui/$(id -u)" "$agent" 2>/dev/null || launchctl bootstrap "user/$(id -u)" "$agent"
}

install_launchd() {
    step "write $agent" write_agent
    step "start the launch agent taskhub.relay" start_agent
    later "See what it does: tail -f $(quoted "$state/relay.log")"
}

# The processes of relays that were started from this installation, by hand or by a service.
relays() {
    if [ -r /proc/self/cmdline ]; then
        for process in /proc/[0-9]*; do
            if { tr '\0' '\n' <"$process/cmdline" | grep -qxF "$data/relay.py"; } 2>/dev/null; then
                echo "${process#/proc/}"
            fi
        done
    elif has pgrep; then
        pgrep -U "$(id -u)" -f "$data/relay.py" || true
    fi
}

# What keeps a program running when its terminal goes.
detached() {
    if has nohup; then echo nohup; else echo 'trap "" HUP;'; fi
}

install_service() {
    if [ -z "$dry_run" ] && [ -z "$(config_says runner)$(config_says command)" ]; then
        later "Nothing is run for a task yet: neither claude, codex, grok nor gemini was found. Install one, or put a command" \
            "into $config, such as \"command\": [\"/path/to/program\"]. Then: curl -fsSL $hub/kit/install.sh | sh -s -- --upgrade"
        return
    fi
    case $(service_kind) in
    systemd) install_systemd ;;
    launchd) install_launchd ;;
    none)
        later "Start it: $(detached) $(quoted "$wrapper") run >>$(quoted "$state/relay.log") 2>&1 &"
        later "Start it with the machine: add the line \"@reboot $(quoted "$wrapper") run\" to crontab -e, or what takes its place."
        later "A bot that is woken drains what waits instead, and ends: $(quoted "$wrapper") once"
        running=$(relays | tr '\n' ' ')
        [ -z "$running" ] || later "A relay that runs already goes on as it was: stop it (kill $running), then start it again."
        ;;
    esac
}

install() {
    check_tools
    check_config
    recall_folders
    step "download relay.py and SKILL.md from $hub and compare their checksums" download_kit
    if [ -n "$code" ]; then
        step "trade the code for a key, kept in $config (readable by you alone)" enrol
    fi
    step "put relay.py and SKILL.md into $data, and the command $wrapper" put_relay
    step "remember in $data/folders which folders were made" remember_folders
    install_service
    [ -n "$dry_run" ] || remember_folders || die "could not write $data/folders."
    is_done=yes
    if [ -n "$dry_run" ]; then
        say "this was a dry run: nothing was changed."
        return
    fi
    say "installed: this machine is the executor $(config_says executor) of $(config_says url)."
    say "how it stands (taskhub-relay doctor):"
    "$python" "$data/relay.py" doctor || later "Mend what doctor calls wrong, then: $(quoted "$wrapper") doctor"
    case :$PATH: in
    *":$(dirname "$wrapper"):"*) ;;
    *) later "The command is $wrapper; its folder is not on your PATH." ;;
    esac
    later "For an agent with a shell: $data/SKILL.md says how to work on tasks."
    say "next:$next_steps"
}

# What the owner calls the key that is lost here.
key_id() {
    "$python" - "$config" <<'PYTHON'
import hashlib, json, sys
try:
    with open(sys.argv[1], encoding="utf-8") as file:
        print("key_" + hashlib.sha256(json.load(file)["key"].encode()).hexdigest()[:16])
except (OSError, ValueError, AttributeError, KeyError, TypeError):
    pass
PYTHON
}

stop_unit() {
    systemctl --user --quiet disable --now taskhub-relay.service 2>/dev/null || true
    remove_unit
    systemctl --user daemon-reload 2>/dev/null || true
    systemctl --user reset-failed taskhub-relay.service 2>/dev/null || true
}

remove_unit() {
    rm -f "$unit" "$(dirname "$unit")/default.target.wants/taskhub-relay.service"
}

# A relay that is told to stop ends its commands and gives its tasks back, which takes it some seconds.
stop_relays() {
    running=$(relays)
    for pid in $running; do kill "$pid" 2>/dev/null || true; done
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        alive=''
        for pid in $running; do ! kill -0 "$pid" 2>/dev/null || alive="$alive $pid"; done
        [ -n "$alive" ] || return 0
        sleep 1
    done
    for pid in $alive; do kill -9 "$pid" 2>/dev/null || true; done
}

remove_files() {
    recall_folders
    if [ -f "$data/lingers" ]; then loginctl disable-linger >/dev/null 2>&1 || true; fi
    rm -rf "$data" "$state" "$(dirname "$config")" && rm -f "$wrapper" || return 1
    remove_folders "$made_before"
}

uninstall() {
    if ! [ -e "$data" ] && ! [ -e "$wrapper" ] && ! [ -e "$(dirname "$config")" ] && ! [ -e "$unit" ] && ! [ -e "$agent" ]; then
        say "nothing is installed for this user, so there is nothing to remove."
        return
    fi
    python=$(command -v python3) || python=false
    executor=$(config_says executor || true) from=$(config_says url || true) key=$(key_id || true)
    if [ -e "$unit" ]; then
        if has systemctl; then
            step "stop and remove the systemd user unit taskhub-relay" stop_unit
        else
            step "remove $unit" remove_unit
        fi
    fi
    if [ -e "$agent" ]; then
        ! has launchctl || step "stop the launch agent taskhub.relay" stop_agent
        step "remove $agent" rm -f "$agent"
    fi
    step "stop the relays that run still, which give their tasks back" stop_relays
    step "remove $data, $state, $(dirname "$config"), $wrapper, and the folders that were made for them" remove_files
    is_done=yes
    if [ -n "$dry_run" ]; then
        say "this was a dry run: nothing was changed."
        return
    fi
    say "removed: nothing of the relay is left here."
    [ -z "$key" ] || say "next: the hub still takes the key that was here. Its owner ends it with: DELETE" \
        "$from/api/executors/$executor/keys/$key"
}

main() {
    parse "$@"
    find_places
    trap cleanup EXIT
    trap 'exit 130' HUP INT TERM
    case $action in
    uninstall) uninstall ;;
    install | upgrade) install ;;
    esac
}

# The braces: a shell runs what is between them once it has read the last one, so a download that was cut off does nothing.
{
    main "$@" </dev/null
    exit
}
