package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// stopped is why a context ended: a signal asked for it.
type stopped struct{ signal syscall.Signal }

func (s stopped) Error() string { return "interrupted" }

// UntilSignal returns a context that ends with the first SIGINT, as Ctrl-C
// sends it, or SIGTERM. The second one ends the process at once.
func UntilSignal() context.Context {
	ctx, stop := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		first, _ := (<-signals).(syscall.Signal)
		signal.Stop(signals)
		stop(stopped{first})
	}()
	return ctx
}

// after is an error after something was done.
type after struct {
	error

	done string
}

func (a after) Error() string { return a.error.Error() + "\n  " + a.done }
func (a after) Unwrap() error { return a.error }

// After adds to an error what a command has done before it, so that a failure
// and an interruption alike say that.
func After(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return after{err, fmt.Sprintf(format, args...)}
}

// interruption returns err as it is said if ctx has ended: an error is then no
// failure of what was named.
func interruption(ctx context.Context, err error) error {
	if err == nil || !errors.Is(ctx.Err(), context.Canceled) || errors.Is(err, ErrFound) || IsMisuse(err) {
		return err
	}
	cause := stopped{syscall.SIGINT} // as if by Ctrl-C
	_ = errors.As(context.Cause(ctx), &cause)
	if a := (after{}); errors.As(err, &a) {
		return fmt.Errorf("%w: %s", cause, a.done)
	}
	return cause
}

// Reader returns a reader of r that ends with ctx, even while r waits for
// input.
func Reader(ctx context.Context, r io.Reader) io.Reader {
	return &untilDone{start: sync.OnceValue(func() io.Reader {
		from, to := io.Pipe()
		go func() {
			_, err := io.Copy(to, r)
			_ = to.CloseWithError(err)
		}()
		context.AfterFunc(ctx, func() { _ = from.CloseWithError(ctx.Err()) })
		return from
	})}
}

// untilDone starts to read with the first Read.
type untilDone struct{ start func() io.Reader }

func (u *untilDone) Read(p []byte) (int, error) { return u.start().Read(p) }
