"""Tasks, and the worker that runs them.

An App holds the tasks. A Worker leases messages from the app's queue, runs their handlers and finishes the
messages. To follow one message through the worker, read `session`.

What users write:

    app             the tasks and schedules of a program, and the queue that their calls go to
    task            a function whose calls can be enqueued; the handler of messages without a task
    arguments       converts the arguments of a call to the payload of a message, and back
    task_modules    imports the modules that define an app's tasks
    handle          what enqueueing returns: the id, and a way to wait for the result
    handler_policy  the options of a handler: channel, attempts, backoff, timeout, lease
    backoff         how long to wait before the next attempt
    job             what a handler can find out about its message, and do with it
    exceptions      what a handler may raise, and what is raised in it
    inline          runs tasks where they are enqueued, without a database: for tests

The worker:

    worker           its public class: options, signals, exit code
    worker_settings  its options, checked
    session          the spine: one run of a worker, from the first lease to the last finish
    in_progress      the messages that the worker has leased, until the database has their outcomes
    intake           decides how many messages to lease, and when
    run_limits       how many messages of one task or channel may run at the same time
    due_messages     whether due messages are held back by a limit, for a run until the queue is empty
    drain            stopping: waits for running handlers, and interrupts those that do not finish
    stop_reason      why a handler should stop
    leased           one leased message: its handler, when its lease ends, whether it must stop
    execute          runs a handler, and turns what it returned or raised into an outcome
    threads          the threads that plain functions run in, and how they are interrupted
    job_context      what a job needs from the worker
    job_log          what is logged about messages: texts, levels, fields
    leases           extends leases while messages are ready or running here, and stops those that are lost
    lease_thread     the thread that extends them, even while a handler blocks the event loop
    loop_watch       logs what blocks the event loop
    progress         writes the progress that handlers report
    finish           completes, gives back, rejects or discards messages
    collector        collects items, so that one call processes many, and splits a call that fails
    unknown_tasks    messages that no handler here is for
    registry         reports the worker to the database, and is told to pause, resume or drain it
    outages          retries calls while the database is unavailable
    maintenance      the queue's maintenance, about once a minute
    health           the health file
    processes        several worker processes under one parent
    reload           whether a file of the app has changed, to restart the worker

Schedules:

    cron        a schedule: name, expression, time zone and message, checked
    cron_times  the times that a cron expression names
    catch_up    which of the times that are due make messages
    scheduler   creates the messages of schedules when they are due
"""
