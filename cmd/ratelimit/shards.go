package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/conn"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

// missed are the nodes of a Cluster that a command has done without, by their
// addresses.
type missed map[string]*conn.NodeError

// note notes an error of one node of several. It reports whether err is one.
func (m missed) note(err error) bool {
	var node *conn.NodeError
	if !errors.As(err, &node) {
		return false
	}
	m[node.Addr] = node
	return true
}

// listed lists the buckets of a policy, or of all with "", and shows how far it
// is.
func (d *desk) listed(ctx context.Context, policy string) iter.Seq2[redisstore.Bucket, error] {
	return d.cleared(d.Store.Buckets(ctx, policy, d.live.rate, d.progress.looked))
}

// cleared is a list that shows how far it is until it ends.
func (d *desk) cleared(list iter.Seq2[redisstore.Bucket, error]) iter.Seq2[redisstore.Bucket, error] {
	return func(yield func(redisstore.Bucket, error) bool) {
		d.progress.clear()
		defer d.progress.clear()
		list(yield)
	}
}

// buckets is listed without masters of a Cluster that fail, which d.missed has
// then, unless all fail.
func (d *desk) buckets(ctx context.Context, policy string) iter.Seq2[redisstore.Bucket, error] {
	return d.answered(ctx, d.listed(ctx, policy))
}

// bucketsAndPolicies is buckets of all policies, and policies with exceptions,
// whose Key is "".
func (d *desk) bucketsAndPolicies(ctx context.Context) iter.Seq2[redisstore.Bucket, error] {
	return d.answered(ctx, d.cleared(d.Store.Keys(ctx, d.live.rate, d.progress.looked)))
}

// answered is a list without masters that fail, as buckets.
func (d *desk) answered(ctx context.Context, list iter.Seq2[redisstore.Bucket, error]) iter.Seq2[redisstore.Bucket, error] {
	return func(yield func(redisstore.Bucket, error) bool) {
		for b, err := range list {
			if err != nil && d.missed.note(err) && len(d.missed) < d.Masters(ctx) {
				continue
			}
			if !yield(b, err) || err != nil {
				return
			}
		}
	}
}

// listedPolicies returns the names of the policies that have exceptions, and
// shows how far it is. The error joins those of servers.
func (d *desk) listedPolicies(ctx context.Context) ([]string, error) {
	d.progress.clear()
	defer d.progress.clear()
	return d.Store.ExceptionPolicies(ctx, d.live.rate, d.progress.looked)
}

// exceptionPolicies is listedPolicies without masters that fail, as buckets.
func (d *desk) exceptionPolicies(ctx context.Context) ([]string, error) {
	policies, err := d.listedPolicies(ctx)
	if err != nil && d.missed.note(err) && len(d.missed) < d.Masters(ctx) {
		return policies, nil
	}
	return policies, err
}

// incomplete returns an error if masters were left out, with what that means
// for the command.
func (d *desk) incomplete(means string) error { return d.missed.error(d.Link, means) }

// error returns an error if there are any, as l explains it.
func (m missed) error(l *conn.Link, means string) error {
	if len(m) == 0 {
		return nil
	}
	var all []error
	for _, addr := range slices.Sorted(maps.Keys(m)) {
		all = append(all, m[addr])
	}
	return l.Explain(fmt.Errorf("%s failed, %s\n  %w", show.Some(int64(len(m)), "master"), means, conn.Lines(all)))
}
