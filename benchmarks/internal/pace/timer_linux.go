// Package pace waits for short times with less delay than time.Sleep, which on Linux rounds up to a millisecond while
// the process is idle.
package pace

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Timer is a timer of the kernel's. One goroutine at a time may use it.
type Timer struct {
	fd   int
	file *os.File // of fd: its Read parks the goroutine, as that of a socket does
}

// NewTimer returns a timer that Close must be called on.
func NewTimer() (*Timer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	return &Timer{fd, os.NewFile(uintptr(fd), "timer")}, nil
}

// Sleep returns after d, or at once if d is not above 0.
func (t *Timer) Sleep(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	if err := unix.TimerfdSettime(t.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(d.Nanoseconds())}, nil); err != nil {
		return os.NewSyscallError("timerfd_settime", err)
	}
	var expirations [8]byte
	_, err := t.file.Read(expirations[:])
	return err
}

// Close frees the timer.
func (t *Timer) Close() { _ = t.file.Close() }
