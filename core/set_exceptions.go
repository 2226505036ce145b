package core

import (
	"errors"
	"fmt"
)

// SetExceptions replaces the exceptions from the next decision on, also of limiters that [Limiter.WithLimits] has returned. They stay
// when SetPolicy changes the policy. If the error is not nil, nothing has changed: it reports every mistake. Changes are logged and
// passed to observers as those of SetPolicy, and counted only, because keys can be personal data.
func (l *Limiter) SetExceptions(e Exceptions) error {
	if l.base != nil {
		return l.base.SetExceptions(e)
	}
	l.changing.Lock()
	defer l.changing.Unlock()
	now := l.current()
	given := e.clone()
	if errs := given.mistakes(now.lists); len(errs) > 0 {
		return fmt.Errorf("ratelimit: exceptions of policy %q: %w", now.policy.Name, errors.Join(errs...))
	}
	changes := now.exceptions.changesTo(given)
	if len(changes) == 0 && now.exceptions.sameNotes(given) {
		return nil
	}
	next := *now
	next.except(given)
	l.exceptions.Store(given)
	l.rules.Store(&next)
	if len(changes) > 0 {
		l.watch.reportPolicy(next.policy, changes)
	}
	return nil
}

// SetFollowing says how the limiter's exceptions are learnt, for [Limiter.Following]. It is for whoever calls SetExceptions, and costs next
// to nothing.
func (l *Limiter) SetFollowing(f Following) { l.following.Store(&f) }

// Following returns how the limiter's exceptions are learnt.
func (l *Limiter) Following() Following {
	if f := l.following.Load(); f != nil {
		return *f
	}
	return Following{}
}

// Exceptions returns what SetExceptions has set last.
func (l *Limiter) Exceptions() Exceptions {
	if e := l.current().exceptions; e != nil {
		return *e.clone()
	}
	return Exceptions{}
}
