"""Tasks, and the worker that runs them: for months, one would hope.

An App knows the tasks; a Worker leases messages from the app's queue, runs their tasks and finishes
them. What it decides, it decides in one place each:

    app, task, arguments   what is a task, and what is the message of a call
    job                    what a handler knows of the message that it works on
    running, threads       a handler is run: in the loop, or in a thread
    endings                what came of it
    holding                a message in the worker's hands
    intake                 how many to lease, and when
    leases                 they are extended while they are held
    finishing              they are completed, or put back, in batches
    cron                   the ticks of schedules
    worker                 all of it together, and how it ends
"""
