package main

import "github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"

// table is every command, in the order of help.
var table = cli.Table{
	Name:  "ratelimit",
	About: "ratelimit says who is limited and why, checks and compares policies, and replays traffic through them.",
	Commands: []cli.Command{
		checkCommand,
		diffCommand,
		getCommand,
		listCommand,
		topCommand,
		findCommand,
		resetCommand,
		creditCommand,
		debitCommand,
		overrideCommand,
		blockCommand,
		unblockCommand,
		exceptionsCommand,
		historyCommand,
		forgetCommand,
		doctorCommand,
		copyCommand,
		replayCommand,
		keyCommand,
		hashCommand,
	},
}
