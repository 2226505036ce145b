package core

type waiters struct{}
