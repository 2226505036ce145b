package main

import (
	"context"

	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

// copyExceptions copies the overrides and blocks of policies that are in Redis.
func (c *copyFlags) copyExceptions(ctx context.Context, d *desk, policies []string, to *redisstore.Store, limits map[string]map[string]string, n *copies) error {
	for _, policy := range policies {
		name, renamed := c.renames[policy]
		if !renamed {
			name = policy
		}
		if err := c.copyExceptionsOf(ctx, d, policy, to, name, limits[policy], n); err != nil && !n.missed.note(err) {
			return err
		}
	}
	return nil
}

// copyExceptionsOf copies those of one policy.
func (c *copyFlags) copyExceptionsOf(ctx context.Context, d *desk, policy string, to *redisstore.Store, name string, limits map[string]string, n *copies) error {
	list, err := d.Store.Exceptions(ctx, policy)
	if err != nil {
		return err
	}
	has, err := exceptionsAt(ctx, to, name)
	if err != nil {
		return err
	}
	for _, e := range list {
		if !c.replace && has[exceptionID{e.Key, e.Blocks()}] {
			n.kept++
			continue
		}
		for i, l := range e.Limits {
			if other, ok := limits[l.Name]; ok {
				e.Limits[i].Name = other
			}
		}
		if !c.dryRun {
			if err := to.CopyException(ctx, name, e); err != nil {
				return err
			}
		}
		n.exceptions++
	}
	if c.dryRun {
		return nil
	}
	return d.Store.CopyHistory(ctx, policy, to, name)
}

// exceptionID names an exception of a policy.
type exceptionID struct {
	key    string
	blocks bool
}

// exceptionsAt returns which exceptions a policy has at TO, and which were
// removed there: that is newer than a dump.
func exceptionsAt(ctx context.Context, to *redisstore.Store, policy string) (map[exceptionID]bool, error) {
	has := make(map[exceptionID]bool)
	there, err := to.Exceptions(ctx, policy)
	if err != nil {
		return nil, err
	}
	for _, e := range there {
		has[exceptionID{e.Key, e.Blocks()}] = true
	}
	blocks, overrides, err := to.EndedExceptions(ctx, policy)
	for _, key := range blocks {
		has[exceptionID{key, true}] = true
	}
	for _, key := range overrides {
		has[exceptionID{key, false}] = true
	}
	return has, err
}
