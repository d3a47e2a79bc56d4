package lease

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// ThisProcess describes the running process. What cannot be found out stays empty, and then nobody takes it for dead.
func ThisProcess() Holder {
	h := Holder{PID: os.Getpid()}
	var err error
	if h.Host, err = os.Hostname(); err != nil {
		return Holder{PID: h.PID}
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return h
	}
	h.Boot = strings.TrimSpace(string(boot))
	if h.Space, err = os.Readlink("/proc/self/ns/pid"); err != nil {
		h.Space = ""
	}
	_, h.Started = processState(h.PID)
	return h
}

// dead reports whether the holder was a process of this machine and is gone for certain.
func (h *Holder) dead() bool {
	me := ThisProcess()
	if h.Boot == "" || h.Space == "" || h.Started == "" || h.Host != me.Host || h.Boot != me.Boot || h.Space != me.Space {
		return false
	}
	if errors.Is(syscall.Kill(h.PID, 0), syscall.ESRCH) {
		return true
	}
	state, started := processState(h.PID) // nothing where processes of others are hidden
	return state == "Z" || state == "X" || started != "" && started != h.Started
}

// processState is a process's state letter, and when it was started; empty if that cannot be seen.
func processState(pid int) (state, started string) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", ""
	}
	// pid (name) state …; the name may hold anything. The start is field 22.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 20 {
		return "?", ""
	}
	return fields[0], fields[19]
}
